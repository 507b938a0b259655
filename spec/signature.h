/*
 * Turns the parameters of a row of driver.def or nvml.def into C. A row writes them once, as
 * `(type)name, (type)name`; at most 12.
 */
#ifndef VGPU_SPEC_SIGNATURE_H
#define VGPU_SPEC_SIGNATURE_H

/* The parameters of a handler's row, and whether the handler can be cancelled. */
#define PARAMS(handler) SIGNATURE_REST(HANDLER_##handler)
#define CANCEL(handler) SIGNATURE_FIRST(HANDLER_##handler)

/* (type name, type name); (void) for no parameters. (name, name); () for none. */
#define SIGNATURE(...)                                                                             \
    (SIGNATURE_REST(SIGNATURE_EACH(SIGNATURE_DECLARE, __VA_ARGS__))                                \
         SIGNATURE_FIRST(__VA_OPT__(, ) void))
#define ARGUMENTS(...) (SIGNATURE_REST(SIGNATURE_EACH(SIGNATURE_NAME, __VA_ARGS__)))

/* The same with one more in front: (first, type name, type name), (first, name, name). */
#define SIGNATURE_WITH(first, ...) (first SIGNATURE_EACH(SIGNATURE_DECLARE, __VA_ARGS__))
#define ARGUMENTS_WITH(first, ...) (first SIGNATURE_EACH(SIGNATURE_NAME, __VA_ARGS__))

/* (type)name -> type name, and -> name */
#define SIGNATURE_DECLARE(param) SIGNATURE_TYPE param
#define SIGNATURE_TYPE(...)      __VA_ARGS__
#define SIGNATURE_NAME(param)    SIGNATURE_SKIP param
#define SIGNATURE_SKIP(...)

#define SIGNATURE_FIRST(...)           SIGNATURE_FIRST_(__VA_ARGS__)
#define SIGNATURE_FIRST_(element, ...) element
#define SIGNATURE_REST(...)            SIGNATURE_REST_(__VA_ARGS__)
#define SIGNATURE_REST_(element, ...)  __VA_ARGS__

/* `, f(a), f(b)` for a, b. */
#define SIGNATURE_EACH(f, ...)                                                                     \
    __VA_OPT__(SIGNATURE_COUNTED(__VA_ARGS__, EACH_12, EACH_11, EACH_10, EACH_9, EACH_8, EACH_7,   \
                                 EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1)(f, __VA_ARGS__))
#define SIGNATURE_COUNTED(a, b, c, d, e, f, g, h, i, j, k, l, each, ...) each

#define EACH_1(f, a)       , f(a)
#define EACH_2(f, a, ...)  , f(a) EACH_1(f, __VA_ARGS__)
#define EACH_3(f, a, ...)  , f(a) EACH_2(f, __VA_ARGS__)
#define EACH_4(f, a, ...)  , f(a) EACH_3(f, __VA_ARGS__)
#define EACH_5(f, a, ...)  , f(a) EACH_4(f, __VA_ARGS__)
#define EACH_6(f, a, ...)  , f(a) EACH_5(f, __VA_ARGS__)
#define EACH_7(f, a, ...)  , f(a) EACH_6(f, __VA_ARGS__)
#define EACH_8(f, a, ...)  , f(a) EACH_7(f, __VA_ARGS__)
#define EACH_9(f, a, ...)  , f(a) EACH_8(f, __VA_ARGS__)
#define EACH_10(f, a, ...) , f(a) EACH_9(f, __VA_ARGS__)
#define EACH_11(f, a, ...) , f(a) EACH_10(f, __VA_ARGS__)
#define EACH_12(f, a, ...) , f(a) EACH_11(f, __VA_ARGS__)

#endif

/* How driver functions are defined: all have CUDA's names, and types. */
#ifndef SIM_API_H
#define SIM_API_H

#include "abi.h"
#include "state.h"

/* The functions that spec/driver.def gives a signature. */
#define HOOK(symbol, handler) SIM_EXPORT symbol##_fn symbol;
#define CALL(symbol, ...)     SIM_EXPORT symbol##_fn symbol;
#define PASS(symbol)
#include "driver.def"
#undef HOOK
#undef CALL
#undef PASS

/* Returns the expression from the function if it is an error. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        int try_ = (expression);                                                                   \
        if (try_)                                                                                  \
            return try_;                                                                           \
    } while (0)

/* Declares the calling thread's context, or the stream of a handle, or returns the error. */
#define NEED_CONTEXT(context)                                                                      \
    struct sim_context *context;                                                                   \
    TRY(context_need(&context))
#define NEED_STREAM(stream, handle)                                                                \
    struct sim_stream *stream;                                                                     \
    TRY(stream_resolve(handle, &stream))

/* First statement of a driver function: counts the call, injects faults, fails before cuInit. */
#define ENTER(symbol) TRY(sim_enter(CALL_##symbol))
/* The same for functions that work before cuInit. */
#define ENTER_EARLY(symbol) TRY(sim_enter_early(CALL_##symbol))
/* The same for functions in which a real driver calls the kernel: they take SIMGPU_LATENCY. */
#define ENTER_KERNEL(symbol)                                                                       \
    do {                                                                                           \
        ENTER(symbol);                                                                             \
        if (__builtin_expect(sim.latency_ns != 0, 0))                                              \
            sim_delay(sim.latency_ns);                                                             \
    } while (0)

/* Defines an exported driver function. It need not use all parameters. */
#define API(symbol, ...)                                                                           \
    SIM_EXPORT CUresult symbol(__VA_ARGS__);                                                       \
    SIM_EXPORT CUresult symbol(__VA_ARGS__)

#define API_ENTER(enter, symbol, expression, ...)                                                  \
    API(symbol, __VA_ARGS__)                                                                       \
    {                                                                                              \
        enter(symbol);                                                                             \
        return expression;                                                                         \
    }

/* Defines a function that returns an expression. The parameters follow the expression. */
#define API_AS(symbol, expression, ...) API_ENTER(ENTER, symbol, expression, __VA_ARGS__)
#define API_AS_KERNEL(symbol, expression, ...)                                                     \
    API_ENTER(ENTER_KERNEL, symbol, expression, __VA_ARGS__)

/* Defines two versions of a function that do the same. */
#define API_TWINS(symbol, twin, ...)                                                               \
    API_AS(symbol, __VA_ARGS__)                                                                    \
    API_AS(twin, __VA_ARGS__)
#define API_TWINS_KERNEL(symbol, twin, ...)                                                        \
    API_AS_KERNEL(symbol, __VA_ARGS__)                                                             \
    API_AS_KERNEL(twin, __VA_ARGS__)

/* The stream that a _ptsz function uses: NULL means the thread's own. */
#define PTSZ(stream) ((stream) ? (stream) : STREAM_PER_THREAD)

/* Defines a function with a parameter `stream`, and its _ptsz version. */
#define API_PTSZ(symbol, ...)                                                                      \
    API_AS(symbol, __VA_ARGS__)                                                                    \
    API_ENTER(ENTER_PTSZ, symbol##_ptsz, __VA_ARGS__)
#define API_PTSZ_KERNEL(symbol, ...)                                                               \
    API_AS_KERNEL(symbol, __VA_ARGS__)                                                             \
    API_ENTER(ENTER_PTSZ_KERNEL, symbol##_ptsz, __VA_ARGS__)
#define ENTER_PTSZ(symbol)                                                                         \
    ENTER(symbol);                                                                                 \
    stream = PTSZ(stream)
#define ENTER_PTSZ_KERNEL(symbol)                                                                  \
    ENTER_KERNEL(symbol);                                                                          \
    stream = PTSZ(stream)

/* Defines a function that runs in the legacy stream, and its _ptds version, which runs in the
 * thread's own. The expression uses the variable `stream`. */
#define API_PTDS(symbol, ...)                                                                      \
    API_ENTER(ENTER_LEGACY, symbol, __VA_ARGS__)                                                   \
    API_ENTER(ENTER_PTDS, symbol##_ptds, __VA_ARGS__)
#define ENTER_LEGACY(symbol)                                                                       \
    struct sim_stream *stream = STREAM_LEGACY;                                                     \
    ENTER(symbol)
#define ENTER_PTDS(symbol)                                                                         \
    struct sim_stream *stream = STREAM_PER_THREAD;                                                 \
    ENTER(symbol)

#endif

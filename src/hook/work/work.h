/* Handlers that start work for the device. */
#ifndef VGPU_HOOK_WORK_WORK_H
#define VGPU_HOOK_WORK_WORK_H

#include "hook/work/compute.h"

/*
 * WORK(handler, first, none, what): the handler does `first`. It forwards if `none` holds or
 * compute_off() says so; otherwise it begins `what`, a struct work. That is a function of its own,
 * so that the short way saves no registers.
 */
#define WORK(handler, first, none, what)                                                           \
    static __attribute__((noinline)) HANDLER_PART(handler, _limited)                               \
    {                                                                                              \
        struct work work = (what);                                                                 \
        CUresult result;                                                                           \
                                                                                                   \
        compute_begin(&work);                                                                      \
        result = FORWARD(sym, handler);                                                            \
        compute_end(&work, result);                                                                \
        return result;                                                                             \
    }                                                                                              \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        first;                                                                                     \
        if ((none) || compute_off())                                                               \
            return FORWARD(sym, handler);                                                          \
        return hook_##handler##_limited ARGUMENTS_WITH(sym, PARAMS(handler));                      \
    }

/* For `first`, of copies and memsets. Those without a stream wait for the device, or may. */
static inline void work_begins(enum hook_symbol sym, bool waits, uint64_t bytes)
{
    trace_bytes(sym, bytes);
    if (waits)
        compute_waits();
}

/* What a device's memory moves at best: a first guess, soon measured. */
#define WORK_BYTES_PER_NS 4000
#define WORK_NS_PER_BYTE  1 /* and at worst, by a bus and in narrow rows */

/* `row_bytes`: of one row if the bytes do not lie in one piece, which takes another time;
 * else 0. */
static inline struct work work_of_bytes(enum hook_symbol sym, enum vgpu_work kind, CUstream stream,
                                        uint64_t bytes, uint64_t row_bytes)
{
    uint64_t moved = kind == VGPU_WORK_COPY ? 2 * bytes : bytes;

    return (struct work){
        .kind = kind,
        .per_thread = hook_symbol_per_thread(sym),
        .stream = stream,
        .key = cost_key(kind, bytes, row_bytes), /* no handle is as small as `kind` */
        .guess_ns = moved / WORK_BYTES_PER_NS,
        .most_ns = moved * WORK_NS_PER_BYTE,
    };
}

#endif

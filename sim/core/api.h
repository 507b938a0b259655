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

/* Ends the function where the expression is an error. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        int try_ = (expression);                                                                   \
        if (try_)                                                                                  \
            return try_;                                                                           \
    } while (0)

/* Declares the calling thread's context, or the stream behind a handle; ends the function where
 * there is none. */
#define NEED_CONTEXT(context)                                                                      \
    struct sim_context *context;                                                                   \
    TRY(context_need(&context))
#define NEED_STREAM(stream, handle)                                                                \
    struct sim_stream *stream;                                                                     \
    TRY(stream_resolve(handle, &stream))

/* First statement of every driver function: counts the call, injects faults, refuses before
 * cuInit. */
#define ENTER(symbol) TRY(sim_enter(CALL_##symbol))
/* The same for calls that may come before cuInit. */
#define ENTER_EARLY(symbol) TRY(sim_enter_early(CALL_##symbol))
/* The same for calls that a real driver takes to the kernel: they cost SIMGPU_LATENCY. */
#define ENTER_KERNEL(symbol)                                                                       \
    do {                                                                                           \
        ENTER(symbol);                                                                             \
        if (__builtin_expect(sim.latency_ns != 0, 0))                                              \
            sim_delay(sim.latency_ns);                                                             \
    } while (0)

/* Defines an exported driver function. Not all use all of their parameters. */
#define API(symbol, ...)                                                                           \
    SIM_EXPORT CUresult symbol(__VA_ARGS__);                                                       \
    SIM_EXPORT CUresult symbol(__VA_ARGS__)

#define API_ENTER(enter, symbol, expression, ...)                                                  \
    API(symbol, __VA_ARGS__)                                                                       \
    {                                                                                              \
        enter(symbol);                                                                             \
        return expression;                                                                         \
    }

/* One that is an expression of its parameters, which follow. */
#define API_AS(symbol, expression, ...) API_ENTER(ENTER, symbol, expression, __VA_ARGS__)
#define API_AS_EARLY(symbol, expression, ...)                                                      \
    API_ENTER(ENTER_EARLY, symbol, expression, __VA_ARGS__)
#define API_AS_KERNEL(symbol, expression, ...)                                                     \
    API_ENTER(ENTER_KERNEL, symbol, expression, __VA_ARGS__)

/* Two versions that are alike. */
#define API_TWINS(symbol, twin, ...)                                                               \
    API_AS(symbol, __VA_ARGS__)                                                                    \
    API_AS(twin, __VA_ARGS__)
#define API_TWINS_KERNEL(symbol, twin, ...)                                                        \
    API_AS_KERNEL(symbol, __VA_ARGS__)                                                             \
    API_AS_KERNEL(twin, __VA_ARGS__)

/* What a _ptsz or _ptds twin makes of its stream argument. */
#define PTSZ(stream) ((stream) ? (stream) : STREAM_PER_THREAD)

/* One with a parameter `stream`, and its twin for which NULL is the thread's own stream. */
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

/* One that runs in the legacy stream, and its twin that runs in the thread's own; the expression
 * has it as `stream`. */
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

/*
 * The macro that turns a HOOK id into an exported function.
 *
 * The path that counts is one load of the mode, one of the driver's address, and a jump into the
 * handler. Everything else (nothing decided yet, switched off, tracing, function missing) goes
 * through enter_<symbol>().
 */
#ifndef VGPU_HOOK_WRAP_H
#define VGPU_HOOK_WRAP_H

#include "base/nocancel.h"
#include "hook/hook.h"
#include "hook/state.h"
#include "hook/wrappers.h"

#define EXPORTED  __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* `steady`: the thread cannot be cancelled from the handler's begin to its end. */
#define WRAP(type, sym, handler, library, id, entry, real, missing, steady)                        \
    static inline type body_##sym SIG_##handler                                                    \
    {                                                                                              \
        int before = (steady) ? nocancel_begin() : 0;                                              \
        type result = hook_##handler WITH_SYMBOL(id, ARGS_##handler);                              \
                                                                                                   \
        if (steady)                                                                                \
            nocancel_end(&before);                                                                 \
        return result;                                                                             \
    }                                                                                              \
    static __attribute__((noinline, cold)) type enter_##sym SIG_##handler                          \
    {                                                                                              \
        switch (hook_enter(entry)) {                                                               \
        case HOOK_HANDLER:                                                                         \
            return body_##sym ARGS_##handler;                                                      \
        case HOOK_DRIVER:                                                                          \
            return ((handler##_fn *)(real))ARGS_##handler;                                         \
        default:                                                                                   \
            return missing;                                                                        \
        }                                                                                          \
    }                                                                                              \
    EXPORTED type sym SIG_##handler                                                                \
    {                                                                                              \
        if (LIKELY(atomic_load_explicit(&hook_mode[library], memory_order_acquire) == HOOK_ON &&   \
                   (real) != NULL))                                                                \
            return body_##sym ARGS_##handler;                                                      \
        return enter_##sym ARGS_##handler;                                                         \
    }

#endif

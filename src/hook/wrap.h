/*
 * The macro that turns a HOOK row into an exported function.
 *
 * The path that counts is one load of the mode, one of the driver's address, and a jump into the body. Everything
 * else (nothing decided yet, switched off, tracing, function missing) goes through enter_<symbol>().
 */
#ifndef VGPU_HOOK_WRAP_H
#define VGPU_HOOK_WRAP_H

#include "base/nocancel.h"
#include "hook/hook.h"
#include "hook/state.h"
#include "hook/wrappers.h"

#define EXPORTED  __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* `steady`: the thread cannot be cancelled from the body's begin to its end. */
#define WRAP(type, sym, body, library, row, entry, real, missing, steady)                                              \
    static inline type body_##sym SIG_##body                                                                           \
    {                                                                                                                  \
        int before = (steady) ? nocancel_begin() : 0;                                                                  \
        type result = hook_##body WITH_ROW(row, ARGS_##body);                                                          \
                                                                                                                       \
        if (steady)                                                                                                    \
            nocancel_end(&before);                                                                                     \
        return result;                                                                                                 \
    }                                                                                                                  \
    static __attribute__((noinline, cold)) type enter_##sym SIG_##body                                                 \
    {                                                                                                                  \
        switch (hook_enter(entry)) {                                                                                   \
        case HOOK_BODY:                                                                                                \
            return body_##sym ARGS_##body;                                                                             \
        case HOOK_DRIVER:                                                                                              \
            return ((body##_fn *)(real))ARGS_##body;                                                                   \
        default:                                                                                                       \
            return missing;                                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    EXPORTED type sym SIG_##body                                                                                       \
    {                                                                                                                  \
        if (LIKELY(atomic_load_explicit(&hook_mode[library], memory_order_acquire) == HOOK_ON && (real) != NULL))      \
            return body_##sym ARGS_##body;                                                                             \
        return enter_##sym ARGS_##body;                                                                                \
    }

#endif

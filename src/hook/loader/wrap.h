/*
 * The macro that turns a HOOK id into an exported function.
 *
 * The fast path is one load of the mode, one of the driver's address, and a jump into the handler.
 * All other cases go through enter_<symbol>(): vgpu has not decided yet, is off, or traces, or the
 * driver lacks the function.
 */
#ifndef VGPU_HOOK_LOADER_WRAP_H
#define VGPU_HOOK_LOADER_WRAP_H

#include "base/nocancel.h"
#include "hook/loader/hook.h"
#include "hook/loader/state.h"
#include "hook/loader/wrappers.h"

#define EXPORTED  __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* With CANCEL_DISABLE, the thread cannot be cancelled while the handler runs. */
enum { CANCEL_ENABLE, CANCEL_DISABLE };

#define WRAP(type, sym, handler, library, id, entry, real, missing)                                \
    static inline type body_##sym SIGNATURE(PARAMS(handler))                                       \
    {                                                                                              \
        int before = CANCEL(handler) == CANCEL_DISABLE ? nocancel_begin() : 0;                     \
        type result = hook_##handler ARGUMENTS_WITH(id, PARAMS(handler));                          \
                                                                                                   \
        if (CANCEL(handler) == CANCEL_DISABLE)                                                     \
            nocancel_end(&before);                                                                 \
        return result;                                                                             \
    }                                                                                              \
    static __attribute__((noinline, cold)) type enter_##sym SIGNATURE(PARAMS(handler))             \
    {                                                                                              \
        switch (hook_enter(entry)) {                                                               \
        case HOOK_HANDLER:                                                                         \
            return body_##sym ARGUMENTS(PARAMS(handler));                                          \
        case HOOK_DRIVER:                                                                          \
            return ((handler##_fn *)(real))ARGUMENTS(PARAMS(handler));                             \
        default:                                                                                   \
            return missing;                                                                        \
        }                                                                                          \
    }                                                                                              \
    EXPORTED type sym SIGNATURE(PARAMS(handler))                                                   \
    {                                                                                              \
        if (LIKELY(atomic_load_explicit(&hook_mode[library], memory_order_acquire) == HOOK_ON &&   \
                   (real) != NULL))                                                                \
            return body_##sym ARGUMENTS(PARAMS(handler));                                          \
        return enter_##sym ARGUMENTS(PARAMS(handler));                                             \
    }

#endif

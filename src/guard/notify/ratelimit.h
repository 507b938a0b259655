/* Messages about what programs do: a program can cause as many as it likes, so one of a kind every
 * 10 s is logged. */
#ifndef VGPU_GUARD_RATELIMIT_H
#define VGPU_GUARD_RATELIMIT_H

#include "base/clock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>

#define RATELIMIT_NS (10 * NS_PER_S)

/* Whether it is time for one more, which is noted then. Any thread. */
static inline bool log_ratelimit_due(_Atomic uint64_t *last_ns)
{
    uint64_t now_ns = clock_ns(), before = atomic_load(last_ns);

    return (before == 0 || now_ns - before >= RATELIMIT_NS) &&
           atomic_compare_exchange_strong(last_ns, &before, now_ns);
}

/* A warning, at most one every RATELIMIT_NS for this place in the source. */
#define log_ratelimited(...)                                                                       \
    do {                                                                                           \
        static _Atomic uint64_t last_ns_;                                                          \
        if (log_ratelimit_due(&last_ns_))                                                          \
            log_warning(__VA_ARGS__);                                                              \
    } while (0)

#endif

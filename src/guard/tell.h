/* Messages about what programs do, which they can do as often as they like: every so often one of a kind is enough. */
#ifndef VGPU_GUARD_TELL_H
#define VGPU_GUARD_TELL_H

#include "base/clock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>

#define TELL_EVERY_NS (10 * NS_PER_S)

/* Whether it is time for one more; then the time is noted. Any thread. */
static inline bool tell_due(_Atomic uint64_t *last_ns)
{
    uint64_t now_ns = clock_ns(), before = atomic_load(last_ns);

    return (before == 0 || now_ns - before >= TELL_EVERY_NS) &&
           atomic_compare_exchange_strong(last_ns, &before, now_ns);
}

/* A warning of this place in the source, now and then. */
#define tell_seldom(...)                                                                                               \
    do {                                                                                                               \
        static _Atomic uint64_t told_ns_;                                                                              \
        if (tell_due(&told_ns_))                                                                                       \
            log_warning(__VA_ARGS__);                                                                                  \
    } while (0)

#endif

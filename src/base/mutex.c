#include "base/mutex.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

#define SPINS 100

void futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared)
{
    KEEP_ERRNO;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % NS_PER_S)};

    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected,
            timeout_ns ? &timeout : NULL, NULL, 0);
}

void futex_wake(void *word, int count, int shared)
{
    KEEP_ERRNO;

    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void mutex_lock_slow(struct vgpu_mutex *mutex)
{
    for (int i = 0; i < SPINS; i++) {
        int expected = 0;

        if (atomic_load_explicit(&mutex->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&mutex->word, &expected, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
        cpu_relax();
    }
    while (atomic_exchange_explicit(&mutex->word, 2, memory_order_acquire) != 0)
        futex_wait(&mutex->word, 2, 0, 0);
}

void mutex_wake(struct vgpu_mutex *mutex)
{
    futex_wake(&mutex->word, 1, 0);
}

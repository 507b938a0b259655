/*
 * A lock for the threads of one process: one word, no allocation, no symbol of libpthread.
 *
 * A forked child may not unlock or initialise a pthread mutex that a thread of the parent held. It
 * may set this word to 0.
 */
#ifndef VGPU_BASE_MUTEX_H
#define VGPU_BASE_MUTEX_H

#include <stdatomic.h>

struct vgpu_mutex {
    atomic_int word; /* 0: free; 1: held; 2: held, and a thread may be waiting */
};

#define VGPU_MUTEX_INIT                                                                            \
    {                                                                                              \
        0                                                                                          \
    }

void mutex_lock_slow(struct vgpu_mutex *mutex);
void mutex_wake(struct vgpu_mutex *mutex);

static inline void mutex_init(struct vgpu_mutex *mutex)
{
    atomic_store_explicit(&mutex->word, 0, memory_order_release);
}

static inline void mutex_lock(struct vgpu_mutex *mutex)
{
    int expected = 0;

    if (!atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        mutex_lock_slow(mutex);
}

static inline void mutex_unlock(struct vgpu_mutex *mutex)
{
    if (atomic_exchange_explicit(&mutex->word, 0, memory_order_release) == 2)
        mutex_wake(mutex);
}

static inline void mutex_unlock_scope(struct vgpu_mutex *const *mutex)
{
    mutex_unlock(*mutex);
}

/* Holds the lock until the end of the scope. */
#define MUTEX_SCOPE(mutex)                                                                         \
    struct vgpu_mutex *mutex_scope_ __attribute__((cleanup(mutex_unlock_scope))) = (mutex);        \
    mutex_lock(mutex_scope_)

/* Waits while *word == expected, for at most timeout_ns (0: no bound). shared: the word is in
 * memory that processes share. Keeps errno. */
void futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared);
void futex_wake(void *word, int count, int shared);

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
}

#endif

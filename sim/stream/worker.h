/* The worker: a thread that works after calls have returned, for sources in layers above it.
 * Guarded by sim.mutex. */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The time until which the thread may sleep, and the words to sleep on. */
struct nap;

struct worker_source {
    /* Does what can be done now; true if there was anything. */
    bool (*run)(void);
    /* Calls the nap_ functions for what it waits for. False if something can be done at once. */
    bool (*plan)(struct nap *nap);
};

/* Sets the sources, in the order in which they run. Comes before the thread starts. The array is
 * not copied. */
void worker_set_sources(const struct worker_source *const *sources, size_t count);

/* For plan(): wake the thread at that time at the latest. */
void nap_foresee(struct nap *nap, uint64_t time_ns);
/* The same, when a kernel is done. */
void nap_foresee_kernel(struct nap *nap, int device, uint64_t number);
/* Wake the thread soon, to try something again. */
void nap_retry(struct nap *nap);
/* Wake the thread when the word no longer has the value. */
void nap_watch(struct nap *nap, const uint32_t *word, uint32_t value);

/* Starts the thread, if it doesn't run: 0 or CUDA_ERROR_OPERATING_SYSTEM. */
int worker_start(void);
/* Starts another thread, with all signals blocked: they are for the program's threads. */
int worker_thread(void *(*function)(void *));
/* Wakes the thread for something that no source foresees. */
void worker_kick(void);
/* Waits until a source has done something, for at most 10 ms. */
void worker_wait(void);

#endif

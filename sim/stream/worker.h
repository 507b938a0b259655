/*
 * The thread that does what calls of the program cannot wait for. What it does it asks of sources,
 * which are above it. Guarded by sim.mutex.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Until when the thread may sleep, and on what. */
struct nap;

struct worker_source {
    /* Does what can be done; true when anything moved. */
    bool (*run)(void);
    /* Says what it waits for; false when that is there already. */
    bool (*plan)(struct nap *nap);
};

/* Sets the sources, in the order of a pass; before the thread starts. The array is not copied. */
void worker_set_sources(const struct worker_source *const *sources, size_t count);

/* For plan(): there is something to do at that time at the latest. */
void nap_foresee(struct nap *nap, uint64_t time_ns);
/* The same, once a kernel is done. */
void nap_foresee_kernel(struct nap *nap, int device, uint64_t number);
/* Something is to be tried again soon. */
void nap_retry(struct nap *nap);
/* The word no longer has that value. */
void nap_watch(struct nap *nap, const uint32_t *word, uint32_t value);

/* Starts the thread, if it doesn't run: 0 or CUDA_ERROR_OPERATING_SYSTEM. */
int worker_start(void);
/* Starts another thread, which takes none of the program's signals. */
int worker_thread(void *(*function)(void *));
/* Wakes the thread: there is something to do that it doesn't foresee. */
void worker_kick(void);
/* Waits until anything moved, for at most 10 ms. */
void worker_wait(void);

#endif

/*
 * A program may cancel its threads. It expects that inside a call that is documented to be a
 * cancellation point, or that its driver makes one; the library's own work is none. Where it holds
 * something across a call of the driver's, as a reservation, that call is none either. What waits
 * for the GPU stays as it is.
 */
#ifndef VGPU_BASE_NOCANCEL_H
#define VGPU_BASE_NOCANCEL_H

#include "base/cleanup.h"

#include <pthread.h>

static inline int nocancel_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void nocancel_end(const int *before)
{
    int ignored;

    pthread_setcancelstate(*before, &ignored);
}

/* Until the scope ends the thread is not cancelled; it is at the program's next cancellation
 * point. */
#define NO_CANCEL                                                                                  \
    int cancel_before_ CLEANUP(nocancel_end) __attribute__((unused)) = nocancel_begin()

#endif

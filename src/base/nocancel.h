/*
 * Thread cancellation. A program expects it only inside documented cancellation points, or where
 * its driver makes one, so the library's own work must be none. A driver call during which the
 * library holds a reservation is none either. Calls that wait for the GPU stay cancellation points.
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

/* Defers cancellation of the thread until its next cancellation point after the scope. */
#define NO_CANCEL                                                                                  \
    int cancel_before_ CLEANUP(nocancel_end) __attribute__((unused)) = nocancel_begin()

#endif

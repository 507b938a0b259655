/* Time in nanoseconds. On x86-64 and aarch64 only clock_thread_ns() makes a system call (vDSO). */
#ifndef VGPU_BASE_CLOCK_H
#define VGPU_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS 1000000ULL
#define NS_PER_S  1000000000ULL

uint64_t clock_ns(void);        /* CLOCK_MONOTONIC: for waits and intervals */
uint64_t clock_coarse_ns(void); /* CLOCK_MONOTONIC_COARSE: cheaper, late by a few milliseconds */
uint64_t clock_real_ns(void);   /* CLOCK_REALTIME: for display */
uint64_t clock_thread_ns(void); /* CLOCK_THREAD_CPUTIME_ID: CPU time of the calling thread */

#endif

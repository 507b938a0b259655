/* Pseudo-random numbers for uses in which no program gains by predicting them (xorshift64). */
#ifndef VGPU_BASE_RANDOM_H
#define VGPU_BASE_RANDOM_H

#include <stdint.h>

/* The next of 2^64 - 1 numbers, none of them 0. *state must not be 0; one thread at a time. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif

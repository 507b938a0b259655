/*
 * The contexts of this process and what each is charged with, so that its end gives exactly that
 * back.
 *
 * Thread-safe; no driver call is made under its lock.
 */
#ifndef VGPU_HOOK_CONTEXT_RECORD_H
#define VGPU_HOOK_CONTEXT_RECORD_H

#include "hook/hook.h"

/* The limits that cost memory. Charged is what a limit takes beyond what it took when the context
 * was new. */
enum context_limit { CONTEXT_STACK, CONTEXT_FIFO, CONTEXT_HEAP, CONTEXT_LIMITS };

struct context_record {
    uint64_t key; /* a CUcontext or a CUgreenCtx: the driver never gives both the same */
    unsigned vdev;
    uint64_t bytes; /* of the context itself */
    struct {
        bool known;
        uint64_t base_value; /* the limit when the context was new */
        uint64_t bytes;
    } limit[CONTEXT_LIMITS];
    struct context_record *next;
};

/* Replaces a record of the same key. False: no memory (the context then stays charged until the
 * process ends). */
bool context_record_put(uint64_t key, unsigned vdev, uint64_t bytes);

/* All that a context is charged with; the record is gone. False: there is none. */
bool context_record_take(uint64_t key, struct context_record *ret_record);
void context_record_put_back(const struct context_record *record);
uint64_t context_record_bytes(const struct context_record *record);

/*
 * A limit of a context is about to become `value`, or has: the bytes it is to be charged with, by
 * what one unit costs, and what it is charged with now. `old_value` is its base where this is the
 * first change. Makes a record for a context that has none. False: no memory.
 */
bool context_record_limit(uint64_t key, unsigned vdev, enum context_limit limit, uint64_t old_value,
                          uint64_t value, uint64_t unit_bytes, uint64_t *ret_target_bytes,
                          uint64_t *ret_charged_bytes);
void context_record_limit_set(uint64_t key, enum context_limit limit, uint64_t bytes);

void context_record_forked(void); /* in the child of a fork */

#endif

/*
 * The contexts of this process and the charge of each, so that its end gives exactly that back.
 *
 * Thread-safe. No call into the driver is made under its lock.
 */
#ifndef VGPU_HOOK_MEMORY_CONTEXT_RECORD_H
#define VGPU_HOOK_MEMORY_CONTEXT_RECORD_H

#include "hook/loader/hook.h"

/* The limits that cost memory. Charged is what a limit takes beyond its value in a new context. */
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
};

/* Replaces a record of the same key. False: no memory; the context stays charged until the process
 * ends. */
bool context_record_put(const struct context_record *record);

/* Takes the record out. False: there is none. */
bool context_record_take(uint64_t key, struct context_record *ret_record);
uint64_t context_record_bytes(const struct context_record *record);

/*
 * A limit of a context is about to become `value`, or has: returns the bytes to charge for it, at
 * `unit_bytes` for each unit, and those charged now. `old_value` is its base if this is the first
 * change. Makes a record for a context without one. False: no memory.
 */
bool context_record_limit(uint64_t key, unsigned vdev, enum context_limit limit, uint64_t old_value,
                          uint64_t value, uint64_t unit_bytes, uint64_t *ret_target_bytes,
                          uint64_t *ret_charged_bytes);
void context_record_limit_set(uint64_t key, enum context_limit limit, uint64_t bytes);

void context_record_forked(void); /* in the child of a fork */

#endif

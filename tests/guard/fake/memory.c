/*
 * Video memory. Counted as the driver counts it for NVML: memory with one reference is its
 * process's own; of several, one is the owner's, the rest are duplicates. When the owner goes, the
 * next in the ring is the owner.
 */
#include "fakerm.h"

#include <stdlib.h>

#define PAGE_BYTES 65536ULL
#define HUGE_BYTES (2ULL << 20)

/* The figure that a reference is in. */
static uint64_t *figure(const struct reference *reference)
{
    struct account *account = book_account(reference->pid);
    unsigned gpu = reference->memory->gpu;

    if (reference->memory->count == 1)
        return &account->gpu[gpu].private;
    return reference->owner ? &account->gpu[gpu].owned : &account->gpu[gpu].duped;
}

static void count(const struct reference *reference, int sign)
{
    struct account *account = book_account(reference->pid);
    unsigned gpu = reference->memory->gpu;
    uint64_t bytes = book_bytes(account, gpu);

    *figure(reference) += sign < 0 ? -reference->memory->bytes : reference->memory->bytes;
    bytes = book_bytes(account, gpu);
    if (bytes > account->gpu[gpu].peak)
        account->gpu[gpu].peak = bytes;
}

uint32_t memory_new(unsigned gpu, uint64_t bytes, pid_t pid, struct reference *ret_reference)
{
    struct gpu *device = &gpus[gpu];
    uint64_t unit = settings.huge && bytes >= HUGE_BYTES ? HUGE_BYTES : PAGE_BYTES;
    uint64_t rounded = (bytes + unit - 1) / unit * unit;
    struct memory *memory;

    if (bytes == 0)
        return RM_ERR_INVALID_ARGUMENT;
    if (bytes > settings.mem_bytes || rounded > settings.mem_bytes - device->used) {
        device->refused++;
        return RM_ERR_NO_MEMORY;
    }
    memory = malloc(sizeof(*memory));
    if (!memory)
        return RM_ERR_NO_MEMORY;
    *memory = (struct memory){.gpu = gpu, .count = 1, .bytes = rounded};
    *ret_reference = (struct reference){
        .memory = memory, .next = ret_reference, .prev = ret_reference, .pid = pid, .owner = true};
    device->used += rounded;
    if (device->used > device->peak)
        device->peak = device->used;
    if (bytes > device->biggest)
        device->biggest = bytes;
    device->allocations++;
    book_account(pid)->gpu[gpu].allocations++;
    count(ret_reference, 1);
    return RM_OK;
}

void memory_share(struct reference *source, pid_t pid, struct reference *ret_reference)
{
    struct memory *memory = source->memory;

    if (memory->count == 1) {
        count(source, -1);
        memory->count = 2;
        count(source, 1);
    } else {
        memory->count++;
    }
    *ret_reference =
        (struct reference){.memory = memory, .next = source->next, .prev = source, .pid = pid};
    source->next->prev = ret_reference;
    source->next = ret_reference;
    count(ret_reference, 1);
}

void memory_drop(struct reference *reference)
{
    struct memory *memory = reference->memory;
    struct reference *next = reference->next;

    if (!memory)
        return;
    count(reference, -1);
    reference->memory = NULL;
    if (memory->count == 1) {
        gpus[memory->gpu].used -= memory->bytes;
        free(memory);
        return;
    }
    reference->prev->next = next;
    next->prev = reference->prev;
    if (reference->owner) {
        count(next, -1);
        next->owner = true;
        count(next, 1);
    }
    if (memory->count == 2) {
        count(next, -1);
        memory->count = 1;
        count(next, 1);
    } else {
        memory->count--;
    }
}

/*
 * Words in memory: streams wait for them and write them, and kernels may end by them. The memory is
 * real: pinned host memory, which may be a file that other processes map, too, managed memory, and
 * device memory that keeps its contents.
 */
#include "memory.h"
#include "stream.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct write {
    struct sim_stream *stream;
    int device;
    uint64_t number;
    struct sim_memop memop;
    struct write *next;
};

struct until {
    int device;
    uint64_t number;
    struct sim_memop memop;
    struct until *next;
};

static struct write *writes, **writes_end = &writes;
static int write_count;
static struct until *untils;
unsigned word_bytes(bool wide)
{
    return wide ? 8 : 4;
}

void *word_find(devptr address, bool wide, bool *ret_known)
{
    struct sim_range *range;
    uint64_t bytes;
    devptr base;

    *ret_known = true;
    if (host_find(address, &base, &bytes) && address + word_bytes(wide) <= base + bytes)
        return (void *)(uintptr_t)address;
    *ret_known =
        address_find(address, &base, &bytes, &range) && address + word_bytes(wide) <= base + bytes;
    return *ret_known && address_touch(range, address, word_bytes(wide))
               ? (void *)(uintptr_t)address
               : NULL;
}

/* The memory of a word. NULL: it is not usable. */
static void *word_memory(devptr address, bool wide)
{
    bool known;

    return word_find(address, wide, &known);
}

/* True if the word has the value that is waited for, or if its memory is gone. */
bool word_true(const struct sim_memop *memop)
{
    const void *word = word_memory(memop->address, memop->wide);
    uint64_t now, mask = memop->wide ? UINT64_MAX : UINT32_MAX;

    if (!word)
        return true;
    if (memop->wide)
        now = __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
    else
        now = __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
    switch (memop->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return memop->wide ? (int64_t)(now - memop->value) >= 0
                           : (int32_t)(uint32_t)(now - memop->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (memop->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & memop->value & mask) != 0;
    default:
        return (~(now | memop->value) & mask) != 0;
    }
}

void word_write(const struct sim_memop *memop)
{
    void *word = word_memory(memop->address, memop->wide);

    if (!word)
        return;
    if (memop->wide)
        __atomic_store_n((uint64_t *)word, memop->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)word, (uint32_t)memop->value, __ATOMIC_RELEASE);
    /* wakes simulators of other processes that sleep on the word: see worker.c */
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool word_settle(void)
{
    struct queue_heads heads = {0};
    bool moved = false;

    for (struct write **link = &writes; *link;) {
        struct write *write = *link;
        if (queue_head(&heads, write->device) < write->number) {
            link = &write->next;
            continue;
        }
        word_write(&write->memop);
        write->stream->writes--;
        *link = write->next;
        if (!write->next)
            writes_end = link;
        free(write);
        __atomic_fetch_sub(&write_count, 1, __ATOMIC_RELAXED);
        moved = true;
    }
    return moved;
}

void word_settle_unlocked(void)
{
    if (!__atomic_load_n(&write_count, __ATOMIC_RELAXED))
        return;
    sim_lock();
    word_settle();
    sim_unlock();
}

int word_write_after(struct sim_stream *stream, uint64_t number, const struct sim_memop *memop)
{
    struct write *write = malloc(sizeof(*write));

    int code = write ? worker_start() : CUDA_ERROR_OUT_OF_MEMORY;
    if (code) {
        free(write);
        return code;
    }
    *write = (struct write){stream, stream->context->device, number, *memop, NULL};
    bool next = true; /* false: an earlier write wakes the worker anyway */
    for (const struct write *other = writes; other; other = other->next)
        next &= other->device != write->device || other->number > number;
    *writes_end = write;
    writes_end = &write->next;
    __atomic_fetch_add(&write_count, 1, __ATOMIC_RELAXED);
    stream->writes++;
    if (next)
        worker_kick();
    return CUDA_SUCCESS;
}

bool word_pending(const struct sim_stream *stream, const struct sim_memop *memop)
{
    if (!stream->writes)
        return false;
    for (const struct write *write = writes; write; write = write->next) {
        devptr start = write->memop.address, end = start + (write->memop.wide ? 8 : 4);
        if (write->stream == stream && start < memop->address + (memop->wide ? 8 : 4) &&
            memop->address < end)
            return true;
    }
    return false;
}

int word_end_kernel(int device, uint64_t number, const struct sim_kernel *kernel)
{
    struct until *until = malloc(sizeof(*until));

    int code = until ? worker_start() : CUDA_ERROR_OUT_OF_MEMORY;
    if (code) {
        free(until);
        return code;
    }
    *until = (struct until){
        device, number, {kernel->address, kernel->value, CU_STREAM_WAIT_VALUE_EQ, false}, untils};
    untils = until;
    worker_kick();
    return CUDA_SUCCESS;
}

static bool end_untils(void)
{
    struct queue_heads heads = {0};
    bool moved = false;

    for (struct until **link = &untils; *link;) {
        struct until *until = *link;
        bool true_now = word_true(&until->memop);
        if (!true_now && queue_head(&heads, until->device) < until->number) {
            link = &until->next;
            continue;
        }
        queue_finish(until->device, until->number);
        *link = until->next;
        free(until);
        moved = true;
    }
    return moved;
}

bool word_watch(struct nap *nap, const struct sim_memop *memop)
{
    const uint32_t *word = word_memory(memop->address, memop->wide);
    uint32_t value = word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;

    if (word_true(memop))
        return false;
    nap_watch(nap, word, value);
    return true;
}

static bool words_run(void)
{
    bool moved = word_settle();

    return end_untils() || moved;
}

static bool words_plan(struct nap *nap)
{
    bool idle = true;

    for (const struct write *write = writes; write; write = write->next) {
        if (write == writes || write->number < writes->number || write->device != writes->device)
            nap_foresee_kernel(nap, write->device, write->number);
    }
    for (const struct until *until = untils; until; until = until->next)
        idle &= word_watch(nap, &until->memop);
    return idle;
}

const struct worker_source words_source = {words_run, words_plan};

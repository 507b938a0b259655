/*
 * Simulated device addresses. The first use sets aside one part of the process's address space,
 * without access: no host pointer can be mistaken for a device pointer. Ranges are cut from it in
 * blocks of 2 MiB. The first copy that touches a range makes it readable and writable.
 */
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

#define RECENT_MAX 64 /* largest size, in blocks, whose freed addresses are used again first */
#define RECENT     16

static devptr arena;
static uint64_t arena_blocks, cursor;
static struct sim_range **blocks;
static struct {
    uint64_t start[RECENT];
    int count;
} recent[RECENT_MAX + 1];

static bool arena_open(void)
{
    if (arena)
        return true;
    for (uint64_t bytes = 4ULL << 40; bytes >= 64ULL << 30; bytes /= 4) {
        void *memory = mmap(NULL, bytes + SIM_BLOCK, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        arena_blocks = bytes / SIM_BLOCK;
        blocks = mmap(NULL, arena_blocks * sizeof(*blocks), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (blocks == MAP_FAILED)
            return false;
        arena = ((devptr)(uintptr_t)memory + SIM_BLOCK - 1) / SIM_BLOCK * SIM_BLOCK;
        return true;
    }
    return false;
}

/* True if count blocks from start are free, else sets the block after the range in the way. */
static bool run_free(uint64_t start, uint64_t count, uint64_t *ret_next)
{
    for (uint64_t block = start; block < start + count; block++) {
        if (blocks[block]) {
            *ret_next = (blocks[block]->base + blocks[block]->bytes - arena) / SIM_BLOCK;
            return false;
        }
    }
    return true;
}

static bool search(uint64_t from, uint64_t until, uint64_t count, uint64_t align,
                   uint64_t *ret_start)
{
    uint64_t first = arena / SIM_BLOCK;

    while (from + count <= until) {
        uint64_t odd = (first + from) % align;
        if (odd) {
            from += align - odd;
            continue;
        }
        if (run_free(from, count, &from)) {
            *ret_start = from;
            return true;
        }
    }
    return false;
}

static bool pick(uint64_t count, uint64_t align, uint64_t *ret_start)
{
    uint64_t next;

    if (count <= RECENT_MAX && align == 1) {
        while (recent[count].count) {
            uint64_t start = recent[count].start[--recent[count].count];
            if (run_free(start, count, &next)) {
                *ret_start = start;
                return true;
            }
        }
    }
    if (!search(cursor, arena_blocks, count, align, ret_start) &&
        !search(0, arena_blocks, count, align, ret_start))
        return false;
    cursor = *ret_start + count;
    return true;
}

static const struct range_ops whole;

struct sim_range *range_new_at(devptr wanted, uint64_t bytes, uint64_t alignment,
                               enum sim_range_kind what)
{
    uint64_t count = (bytes + SIM_BLOCK - 1) / SIM_BLOCK, start, next;
    uint64_t align = alignment > SIM_BLOCK ? alignment / SIM_BLOCK : 1;

    if (!arena_open() || !count || count > arena_blocks)
        return NULL;
    start = (wanted - arena) / SIM_BLOCK;
    if (!(wanted >= arena && wanted % SIM_BLOCK == 0 && start + count <= arena_blocks &&
          run_free(start, count, &next)) &&
        !pick(count, align, &start))
        return NULL;
    struct sim_range *range = calloc(1, sizeof(*range));
    if (!range)
        return NULL;
    range->base = arena + start * SIM_BLOCK;
    range->bytes = count * SIM_BLOCK;
    range->asked = bytes;
    range->what = what;
    range->ops = &whole;
    range->number = sim_number();
    range->references = 1;
    for (uint64_t block = start; block < start + count; block++)
        blocks[block] = range;
    return range;
}

struct sim_range *range_new(uint64_t bytes, enum sim_range_kind what)
{
    return range_new_at(0, bytes, SIM_BLOCK, what);
}

struct sim_range *range_find(devptr address)
{
    if (!arena || address < arena || address >= arena + arena_blocks * SIM_BLOCK)
        return NULL;
    return blocks[(address - arena) / SIM_BLOCK];
}

void range_link(struct sim_range *range, struct sim_context *context)
{
    range->context = context;
    range->next = context->ranges;
    if (range->next)
        range->next->previous = range;
    context->ranges = range;
}

int range_charge(struct sim_range *range, int device, enum sim_kind kind, uint64_t bytes)
{
    int code = sim_charge(device, kind, bytes);

    range->device = device;
    range->kind = kind;
    if (!code)
        range->charged = bytes;
    return code;
}

/* Releases the range's charge. Importers in other processes keep the memory on the device. */
static void range_uncharge(struct sim_range *range)
{
    sim_release(range->device, range->kind, range->charged);
    range->charged = 0;
    if (!range->object_id)
        return;
    sim_lock_state();
    struct sim_object *object =
        state_object_find_locked(sim.state, range->object_id, range->object_nonce);
    if (object && range->what == RANGE_IMPORT)
        state_object_drop_locked(sim.state, object, sim.slot);
    else if (object)
        state_object_disown_locked(sim.state, object);
    state_unlock(sim.state);
}

void range_free(struct sim_range *range)
{
    uint64_t start = (range->base - arena) / SIM_BLOCK, count = range->bytes / SIM_BLOCK;

    range_uncharge(range);
    if (range->context) {
        if (range->next)
            range->next->previous = range->previous;
        if (range->previous)
            range->previous->next = range->next;
        else
            range->context->ranges = range->next;
    }
    if (range->touched)
        mmap((void *)(uintptr_t)range->base, range->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (uint64_t block = start; block < start + count; block++)
        blocks[block] = NULL;
    if (count <= RECENT_MAX && recent[count].count < RECENT)
        recent[count].start[recent[count].count++] = start;
    free(range);
}

bool range_touch(struct sim_range *range)
{
    if (range->touched)
        return true;
    if (range->bytes > SIM_BACKED && range->kind != SIM_MANAGED)
        return false;
    range->touched =
        !mprotect((void *)(uintptr_t)range->base, range->bytes, PROT_READ | PROT_WRITE);
    return range->touched;
}

/* An address frees data, or an import that names no object. */
int range_free_whole(struct sim_range *range, devptr address, uint64_t order)
{
    bool buffer = range->what == RANGE_IMPORT && !range->object_id;

    (void)order;
    if ((range->what != RANGE_DATA && !buffer) || range->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    range_free(range);
    return CUDA_SUCCESS;
}

bool range_find_whole(struct sim_range *range, devptr address, devptr *ret_base,
                      uint64_t *ret_bytes)
{
    *ret_base = range->base;
    *ret_bytes = range->asked;
    return address < range->base + range->asked;
}

bool range_touch_whole(struct sim_range *range, devptr address, uint64_t bytes)
{
    (void)address;
    (void)bytes;
    return range_touch(range);
}

static const struct range_ops whole = {range_find_whole, range_touch_whole, range_free_whole};

bool address_find(devptr address, devptr *ret_base, uint64_t *ret_bytes,
                  struct sim_range **ret_range)
{
    *ret_range = range_find(address);
    return *ret_range && (*ret_range)->ops->find(*ret_range, address, ret_base, ret_bytes);
}

bool address_touch(struct sim_range *range, devptr address, uint64_t bytes)
{
    return range->ops->touch(range, address, bytes);
}

int address_free(devptr address, uint64_t order)
{
    struct sim_range *range = range_find(address);

    return range ? range->ops->free(range, address, order) : CUDA_ERROR_INVALID_VALUE;
}

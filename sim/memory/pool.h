/*
 * Memory pools. A pool has addresses for all memory of its device. It takes and gives back the
 * memory itself in chunks of 32 MiB. Allocations take the lowest free addresses, 512-byte aligned.
 * Guarded by sim.mutex.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "memory.h"

struct sim_extent { /* a run of addresses, free or allocated, in address order */
    struct sim_extent *next;
    uint64_t offset;
    uint64_t bytes; /* rounded */
    uint64_t asked; /* 0: free */
};

struct sim_chunk {
    uint32_t users;    /* allocations that touch it */
    uint64_t freed_in; /* the stream in whose order its last user was freed, until it is waited for;
                          0: none */
    bool resident;
    bool touched;
};

struct sim_pool {
    unsigned magic;
    int device;   /* physical index; for a host pool, the device whose ledger lists it */
    int location; /* LOCATION_... */
    int ordinal;
    int handle_types;
    enum sim_kind kind;
    bool standard; /* a device's default pool */
    bool doomed;   /* destroyed, with allocations left */
    bool imported;
    uint64_t reserved, reserved_high, used, used_high;
    uint64_t threshold, max_bytes;
    int reuse[3];
    int allocations;
    uint64_t top;            /* end of the highest chunk ever used */
    struct sim_range *range; /* its addresses, from the first allocation on */
    struct sim_extent *extents;
    struct sim_chunk *chunks;
    struct sim_pool *next;
    uint64_t object_id, object_nonce; /* when exported or imported */
};

struct sim_pool *pool_new(int device, enum sim_kind kind);
int pool_alloc(struct sim_pool *pool, uint64_t bytes, devptr *ret_address);
/* Gives unused chunks back until at most keep_bytes are reserved. */
void pool_trim(struct sim_pool *pool, uint64_t keep_bytes);
/* The device's own pool, made at the first use. */
struct sim_pool *pool_default(int device);
/* Ends the handle. The memory goes back with the last allocation. */
void pool_destroy(struct sim_pool *pool);

#endif

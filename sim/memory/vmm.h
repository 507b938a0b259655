/* Physical memory of cuMemCreate, and its mappings. Guarded by sim.mutex. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "memory.h"

struct sim_physical {
    uint64_t handle;
    uint64_t bytes;
    int device; /* physical index of the device that is charged */
    enum sim_kind kind;
    int references;
    int mappings;
    bool imported;
    int aliases; /* handles imported from this process itself */
    struct sim_physical
        *original; /* for a handle imported from this process itself: the memory that it names */
    CUmemAllocationProp prop;
    uint64_t object_id, object_nonce;
    struct sim_physical *next; /* of the hash chain */
};

struct sim_physical *physical_find(uint64_t handle);
struct sim_physical *physical_new(uint64_t bytes, const CUmemAllocationProp *prop);
struct sim_physical *physical_of_object(uint64_t id);
/* Frees it when nothing refers to it. */
void physical_put(struct sim_physical *physical);
struct sim_physical *mapping_physical(devptr address);

#endif

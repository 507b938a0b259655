/*
 * A small world for tests of the guard's model: three clients with a device and a subdevice each,
 * one UVM space.
 */
#ifndef VGPU_TESTS_GUARD_WORLD_H
#define VGPU_TESTS_GUARD_WORLD_H

#include "unit.h"

#include "guard/nvidia/abi.h"
#include "guard/track/objects.h"

/* Clients: two of process 1, one of process 2. The space is 1, process 1's. */
#define A 0xc1d00001u
#define B 0xc1d00002u
#define C 0xc1d00003u

#define DEVICE    0x5c000001u
#define SUBDEVICE 0x5c000002u
#define MEMORY    0x5c000010u
#define PAGE      0x200000ULL

struct world {
    struct objects *objects;
    /* What the changes that were taken add up to, and the last of them. */
    int64_t sum[8][VGPU_DEVICES_MAX];
    int64_t total, lowest; /* of all; the lowest that it was, for tests to set */
    unsigned charges, removals;
    uint32_t removed[16];
};

int world_new(struct world *world, unsigned limit); /* an empty one; 0 or -errno */

/* cmocka's: *state is a world. */
int world_setup(void **state);
int world_teardown(void **state);

/* Takes what the model says has changed. */
void take_changes(struct world *world);
extern const struct objects_classes world_classes;

/* What the owner is charged on a device, by the changes; sum(): on device 0, and the model's total
 * has to agree. */
uint64_t sum_on(struct world *world, uint32_t owner, unsigned gpu);
uint64_t sum(struct world *world, uint32_t owner);
unsigned items(struct world *world); /* those that count against the limit */

void memory(struct world *world, uint32_t client, uint32_t handle,
            uint64_t bytes); /* beneath DEVICE, on device 0 */
void map(struct world *world, uint64_t base, uint64_t length, uint32_t client,
         uint32_t handle); /* on device 0 */

#endif

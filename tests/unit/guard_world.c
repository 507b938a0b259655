#include "guard_world.h"

#include "guard/track/objects_internal.h"

static void take_charge(struct world *world, const struct objects_charge *charge)
{
    assert_true(charge->owner < 8 && charge->vdev < VGPU_DEVICES_MAX);
    assert_true(charge->bytes != 0);
    world->charges++;
    world->sum[charge->owner][charge->vdev] += charge->bytes;
    world->total += charge->bytes;
    world->lowest = world->total < world->lowest ? world->total : world->lowest;
    assert_true(world->sum[charge->owner][charge->vdev] >= 0);
}

static void take_gone(struct world *world, const struct objects_gone *gone)
{
    assert_int_not_equal(gone->client, gone->handle);
    assert_int_not_equal(gone->class_id, RM_CLASS_MEMORY_LOCAL_USER);
    world->removed[world->removals++ % 16] = gone->handle;
}

void take_changes(struct world *world)
{
    struct objects_charge charge;
    struct objects_gone gone;

    while (objects_next_charge(world->objects, &charge))
        take_charge(world, &charge);
    while (objects_next_gone(world->objects, &gone))
        take_gone(world, &gone);
}

const struct objects_classes world_classes = {.root = RM_CLASS_ROOT,
                                              .device = RM_CLASS_DEVICE,
                                              .subdevice = RM_CLASS_SUBDEVICE,
                                              .memory = RM_CLASS_MEMORY_LOCAL_USER,
                                              .unnamed = RM_CLASS_MEMORY_FABRIC};

int world_new(struct world *world, unsigned limit)
{
    memset(world, 0, sizeof(*world));
    return objects_new(&world_classes, limit, &world->objects);
}

unsigned items(struct world *world)
{
    take_changes(world);
    return world->objects->count;
}

int world_setup(void **state)
{
    static struct world world;
    static const uint32_t clients[] = {A, B, C};

    if (world_new(&world, 100000))
        return 1;
    for (unsigned i = 0; i < 3; i++) {
        if (objects_client(world.objects, clients[i], 1 + i / 2) ||
            objects_add(world.objects, clients[i], clients[i], DEVICE, RM_CLASS_DEVICE) ||
            objects_add(world.objects, clients[i], DEVICE, SUBDEVICE, RM_CLASS_SUBDEVICE))
            return 1;
    }
    *state = &world;
    return objects_space(world.objects, 1, 1);
}

int world_teardown(void **state)
{
    struct world *world = *state;

    objects_free(world->objects);
    return 0;
}

uint64_t sum_on(struct world *world, uint32_t owner, unsigned gpu)
{
    take_changes(world);
    return (uint64_t)world->sum[owner][gpu];
}

uint64_t sum(struct world *world, uint32_t owner)
{
    uint64_t bytes = sum_on(world, owner, 0);

    assert_int_equal(objects_total(world->objects, 0),
                     world->sum[1][0] + world->sum[2][0] + world->sum[3][0]);
    return bytes;
}

void memory(struct world *world, uint32_t client, uint32_t handle, uint64_t bytes)
{
    assert_int_equal(objects_add_memory(world->objects, client, DEVICE, handle, 0, bytes), 0);
}

void map(struct world *world, uint64_t base, uint64_t length, uint32_t client, uint32_t handle)
{
    const uint32_t gpu = 0;

    assert_int_equal(objects_map(world->objects, 1, base, length, &gpu, 1, client, handle), 0);
}

#include "guard_world.h"

static void charged(void *arg, uint32_t owner, unsigned gpu, int64_t bytes)
{
    struct world *world = arg;

    assert_true(owner < 8 && gpu < VGPU_DEVICES_MAX);
    assert_true(bytes != 0);
    world->events++;
    world->sum[owner][gpu] += bytes;
    world->total += bytes;
    world->lowest = world->total < world->lowest ? world->total : world->lowest;
    assert_true(world->sum[owner][gpu] >= 0);
}

static void removed(void *arg, uint32_t client, uint32_t handle, uint32_t class_id)
{
    struct world *world = arg;

    assert_int_not_equal(client, handle);
    assert_int_not_equal(class_id, RM_CLASS_MEMORY_LOCAL_USER);
    world->removed[world->removals++ % 16] = handle;
}

int world_new(struct world *world, unsigned limit)
{
    struct objects_events events = {.charged = charged, .removed = removed, .arg = world};

    memset(world, 0, sizeof(*world));
    return objects_new(&events, limit, &world->objects);
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

uint64_t sum(const struct world *world, uint32_t owner)
{
    uint64_t bytes = objects_sum(world->objects, owner, 0);

    assert_int_equal(world->sum[owner][0], bytes);
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

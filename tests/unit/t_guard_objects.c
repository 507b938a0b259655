/* The guard's model of what is held in the driver: the rules of guard/track/objects.h for objects
 * and owners. */
#include "guard_world.h"

TEST(allocated_and_freed, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world), gpu = 77;
    uint64_t bytes = 77;
    uint32_t class_id;

    assert_int_equal(objects_add_memory(objects, A, DEVICE, MEMORY, 3, 5 * MIB), 0);
    assert_int_equal(sum_on(world, 1, 3), 5 * MIB);
    assert_int_equal(sum_on(world, 1, 0), 0);
    assert_int_equal(sum_on(world, 2, 3), 0);
    assert_int_equal(objects_total(objects, 3), 5 * MIB);
    assert_int_equal(world->sum[1][3], 5 * MIB);
    assert_int_equal(objects_class(objects, A, MEMORY, &class_id), 0);
    assert_int_equal(class_id, RM_CLASS_MEMORY_LOCAL_USER);
    assert_int_equal(objects_memory(objects, A, MEMORY, &gpu, &bytes), 0);
    assert_int_equal(gpu, 3);
    assert_int_equal(bytes, 5 * MIB);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(sum_on(world, 1, 3), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY), -ENOENT);
    assert_int_equal(objects_memory(objects, A, MEMORY, &gpu, &bytes), -ENOENT);
    assert_int_equal(objects_memory(objects, A, DEVICE, &gpu, &bytes), -ENOENT);
    assert_int_equal(bytes, 5 * MIB);
    assert_int_equal(items(world), before);
    assert_int_equal(world->removals, 0); /* memory is told of by its charge */
    assert_int_equal(world->charges, 2);
    assert_int_equal(objects_add_memory(objects, A, DEVICE, MEMORY, 0, 0),
                     0); /* nothing, nothing to tell */
    take_changes(world);
    assert_int_equal(world->charges, 2);
}

TEST(refused, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    const uint32_t gpu = 0;
    unsigned before = items(world);
    uint32_t result = 77;

    assert_int_equal(objects_client(objects, 0, 1), -EINVAL);
    assert_int_equal(objects_add(objects, 5, 5, 6, 1), -ENOENT);
    assert_int_equal(objects_add(objects, A, A, 0, 1), -EINVAL);
    assert_int_equal(objects_add(objects, A, A, A, 1), -EINVAL);
    assert_int_equal(objects_add(objects, A, A, A, RM_CLASS_ROOT), -EINVAL);
    assert_int_equal(objects_add_memory(objects, 5, 5, 6, 0, MIB), -ENOENT);
    assert_int_equal(objects_add_memory(objects, A, DEVICE, A, 0, MIB), -EINVAL);
    assert_int_equal(objects_add_memory(objects, A, DEVICE, MEMORY, VGPU_DEVICES_MAX, MIB),
                     -EINVAL);
    assert_int_equal(objects_add_memory(objects, A, DEVICE, MEMORY, 0, 1ULL << 63), -EINVAL);
    assert_int_equal(objects_dup(objects, 5, 5, 6, A, DEVICE), -ENOENT);
    assert_int_equal(objects_dup(objects, A, A, 0, A, DEVICE), -EINVAL);
    assert_int_equal(objects_remove(objects, 5, 5), -ENOENT);
    assert_int_equal(objects_range(objects, 9, PAGE, PAGE), -ENOENT);
    assert_int_equal(objects_range(objects, 1, PAGE, 0), -EINVAL);
    assert_int_equal(objects_range(objects, 1, 0 - PAGE, PAGE + 1), -EINVAL);
    assert_int_equal(objects_map(objects, 9, PAGE, PAGE, &gpu, 1, A, MEMORY), -ENOENT);
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_map(objects, 1, PAGE, 0, &gpu, 1, A, MEMORY), -EINVAL);
    assert_int_equal(objects_map(objects, 1, PAGE, 0 - PAGE + 1, &gpu, 1, A, MEMORY), -EINVAL);
    objects_remove(objects, A, MEMORY);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, &gpu, 1, A, MEMORY),
                     0); /* unknown: not ours */
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, &gpu, 1, A, DEVICE),
                     0); /* no memory of the device */
    objects_unmap(objects, 9, PAGE, PAGE, 0);
    objects_unmap_all(objects, 9, PAGE);
    objects_unmap(objects, 1, PAGE, PAGE, 0);
    objects_unmap_all(objects, 1, PAGE);
    objects_space_gone(objects, 9);
    objects_owner_gone(objects, 9);
    assert_int_equal(objects_inherit(objects, 9, 1), 0);
    assert_int_equal(objects_device(objects, A, 4, &result), -ENOENT);
    assert_int_equal(objects_device(objects, A, A, &result), -ENOENT);
    assert_int_equal(objects_subdevice(objects, A, 4, &result), -ENOENT);
    assert_int_equal(objects_subdevice(objects, A, SUBDEVICE, &result), -ENOENT);
    assert_int_equal(objects_class(objects, A, 4, &result), -ENOENT);
    assert_int_equal(result, 77);
    assert_int_equal(items(world), before);
    assert_int_equal(objects_total(objects, 1000), 0);
    objects_free(NULL);
}

TEST(parents_take_children, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t device = 0;

    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_add(objects, A, DEVICE, 20, RM_CLASS_CHANNEL_GROUP), 0);
    assert_int_equal(objects_add(objects, A, 20, 21, 0xc86f), 0);
    assert_int_equal(objects_add(objects, A, 21, 22, 0xcbc0), 0);
    assert_int_equal(objects_device(objects, A, 22, &device), 0);
    assert_int_equal(device, DEVICE);
    assert_int_equal(objects_device(objects, A, DEVICE, &device), 0);
    assert_int_equal(device, DEVICE);
    memory(world, A, MEMORY + 1, MIB);
    assert_int_equal(objects_remove(objects, A, DEVICE), 0);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(world->removals, 5);
    assert_int_equal(world->removed[4], DEVICE); /* children first */
    for (unsigned i = 0; i < 5; i++) {
        if (world->removed[i] == 22)
            assert_int_equal(world->removed[i + 1], 21);
        if (world->removed[i] == 21)
            assert_int_equal(world->removed[i + 1], 20);
    }
    assert_int_equal(objects_class(objects, A, 22, &device), -ENOENT);
    /* The client stays, and ends with the rest. */
    assert_int_equal(objects_add(objects, A, A, DEVICE, RM_CLASS_DEVICE), 0);
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_remove(objects, A, A), 0);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(objects_remove(objects, A, A), -ENOENT);
}

TEST(subdevice_among_others, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t found = 0;

    assert_int_equal(objects_add(objects, A, DEVICE, 20, 0x9999), 0);
    assert_int_equal(objects_add(objects, A, DEVICE, 21, RM_CLASS_SUBDEVICE), 0);
    assert_int_equal(objects_add(objects, A, DEVICE, 22, 0x9999), 0);
    assert_int_equal(objects_subdevice(objects, A, DEVICE, &found), 0);
    assert_int_equal(found, 21);
    assert_int_equal(objects_remove(objects, A, 21), 0);
    assert_int_equal(objects_subdevice(objects, A, DEVICE, &found), 0);
    assert_int_equal(found, SUBDEVICE);
    assert_int_equal(objects_remove(objects, A, SUBDEVICE), 0);
    assert_int_equal(objects_subdevice(objects, A, DEVICE, &found), -ENOENT);
    /* A second device in the same client. */
    assert_int_equal(objects_add(objects, A, A, 30, RM_CLASS_DEVICE), 0);
    assert_int_equal(objects_add(objects, A, 30, 31, RM_CLASS_SUBDEVICE), 0);
    assert_int_equal(objects_device(objects, A, 31, &found), 0);
    assert_int_equal(found, 30);
    assert_int_equal(objects_subdevice(objects, A, 30, &found), 0);
    assert_int_equal(found, 31);
}

TEST(handles_used_again, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t class_id = 0;

    /* The driver gives no handle twice: the first one and what is below it have gone unseen. */
    memory(world, A, MEMORY, MIB);
    memory(world, A, MEMORY, 3 * MIB);
    assert_int_equal(sum(world, 1), 3 * MIB);
    assert_int_equal(objects_add(objects, A, A, DEVICE, RM_CLASS_DEVICE), 0);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(world->removals, 2);
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_add(objects, A, DEVICE, MEMORY, 0x9999), 0);
    assert_int_equal(sum(world, 1), 0);
    /* A duplicate elsewhere still holds what the handle held. */
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_dup(objects, B, DEVICE, 40, A, MEMORY), 0);
    memory(world, A, MEMORY, 4 * MIB);
    assert_int_equal(sum(world, 1), 5 * MIB);

    /* So does one under another parent, and what was below it is gone. */
    assert_int_equal(objects_add(objects, A, DEVICE, 41, 0xc86f), 0);
    assert_int_equal(objects_add(objects, A, 41, 42, 0xcbc0), 0);
    assert_int_equal(objects_add(objects, A, DEVICE, SUBDEVICE, RM_CLASS_SUBDEVICE), 0);
    assert_int_equal(objects_add(objects, A, SUBDEVICE, 41, 0xc86f), 0);
    assert_int_equal(objects_class(objects, A, 42, &class_id), -ENOENT);
    assert_int_equal(objects_class(objects, A, 41, &class_id), 0);
    assert_int_equal(objects_remove(objects, A, SUBDEVICE), 0);
    assert_int_equal(objects_class(objects, A, 41, &class_id), -ENOENT);
}

TEST(impossible_parents, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t found = 0;

    /* Below itself, below what is below it, below nothing: each belongs to the client. */
    assert_int_equal(objects_add(objects, A, 50, 50, 0x9999), 0);
    assert_int_equal(objects_add(objects, A, 50, 51, 0x9999), 0);
    assert_int_equal(objects_add(objects, A, 51, 50, 0x9999), 0);
    assert_int_equal(objects_class(objects, A, 51, &found), -ENOENT);
    assert_int_equal(objects_add(objects, A, 50, 50, 0x9999), 0);
    assert_int_equal(objects_add(objects, A, 60, 61, 0x9999), 0);
    assert_int_equal(objects_add_memory(objects, A, 60, 62, 0, MIB), 0);
    assert_int_equal(objects_remove(objects, A, 60), -ENOENT);
    assert_int_equal(sum(world, 1), MIB);
    assert_int_equal(objects_remove(objects, A, 62), 0);
    assert_int_equal(sum(world, 1), 0);
    /* Another client's object is no parent. */
    assert_int_equal(objects_add(objects, B, B, 70, RM_CLASS_DEVICE), 0);
    assert_int_equal(objects_add(objects, A, 70, 71, 0x9999), 0);
    assert_int_equal(objects_device(objects, A, 71, &found), -ENOENT);
    assert_int_equal(objects_remove(objects, B, B), 0);
    assert_int_equal(objects_class(objects, A, 71, &found), 0);
    assert_int_equal(objects_remove(objects, A, A), 0);
    assert_int_equal(objects_class(objects, A, 71, &found), -ENOENT);
}

TEST(duplicates, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t class_id = 0;
    unsigned gpu;
    uint64_t bytes = 0;

    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    assert_int_equal(objects_memory(objects, C, 90, &gpu, &bytes), 0);
    assert_int_equal(bytes, MIB);
    assert_int_equal(sum(world, 1), MIB); /* once */
    assert_int_equal(sum(world, 2), 0);
    take_changes(world);
    world->lowest = world->total;
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(sum(world, 2), MIB);
    take_changes(world);
    assert_int_equal(world->lowest, MIB); /* it never seemed to be free */
    /* A duplicate of a duplicate, within one client, and of itself. */
    assert_int_equal(objects_dup(objects, C, DEVICE, 91, C, 90), 0);
    assert_int_equal(objects_dup(objects, C, DEVICE, 91, C, 91), 0);
    assert_int_equal(objects_remove(objects, C, 90), 0);
    assert_int_equal(sum(world, 2), MIB);
    assert_int_equal(objects_remove(objects, C, DEVICE), 0);
    assert_int_equal(sum(world, 2), 0);
    /* Others than memory, and what is not known. */
    assert_int_equal(objects_dup(objects, B, B, 92, A, SUBDEVICE), 0);
    assert_int_equal(objects_class(objects, B, 92, &class_id), 0);
    assert_int_equal(class_id, RM_CLASS_SUBDEVICE);
    assert_int_equal(objects_dup(objects, B, B, 92, 12345, 1), 0);
    assert_int_equal(objects_class(objects, B, 92, &class_id), 0);
    assert_int_equal(class_id, 0);
    /* Over the handle of the source's parent: what is duplicated is there all the same. */
    memory(world, B, MEMORY, MIB);
    assert_int_equal(objects_dup(objects, B, B, DEVICE, B, MEMORY), 0);
    assert_int_equal(sum(world, 1), MIB);
    assert_int_equal(objects_remove(objects, B, DEVICE), 0);
    assert_int_equal(sum(world, 1), 0);
}

/*
 * Five references to one allocation, ended in every order: the charge is the oldest one's owner's
 * until the last.
 */
TEST(every_order, world_setup, world_teardown)
{
    static const uint32_t gpus[] = {0, 1};
    static const uint32_t owner_of[] = {1, 1, 2, 1, 1};
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world), orders = 0;

    for (unsigned code = 0; code < 5 * 5 * 5 * 5 * 5; code++) {
        bool gone[5] = {false};
        unsigned order[5], seen = 0;

        for (unsigned i = 0, rest = code; i < 5; i++, rest /= 5) {
            order[i] = rest % 5;
            seen |= 1u << order[i];
        }
        if (seen != 31)
            continue;
        orders++;
        memory(world, A, MEMORY, MIB);
        assert_int_equal(objects_dup(objects, B, DEVICE, 90, A, MEMORY), 0);
        assert_int_equal(objects_dup(objects, C, DEVICE, 91, B, 90), 0);
        assert_int_equal(objects_map(objects, 1, PAGE, PAGE, gpus, 2, C, 91), 0);
        for (unsigned i = 0; i < 5; i++) {
            uint32_t owner = 0;

            switch (order[i]) {
            case 0:
                assert_int_equal(objects_remove(objects, A, MEMORY), 0);
                break;
            case 1:
                assert_int_equal(objects_remove(objects, B, 90), 0);
                break;
            case 2:
                assert_int_equal(objects_remove(objects, C, 91), 0);
                break;
            default:
                objects_unmap(objects, 1, PAGE, PAGE, gpus[order[i] - 3]);
            }
            gone[order[i]] = true;
            for (unsigned j = 0; j < 5 && !owner; j++)
                owner = gone[j] ? 0 : owner_of[j];
            assert_int_equal(sum(world, 1), owner == 1 ? MIB : 0);
            assert_int_equal(sum(world, 2), owner == 2 ? MIB : 0);
        }
        assert_int_equal(items(world), before);
    }
    assert_int_equal(orders, 120);
}

TEST(owners_end, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint32_t class_id;

    memory(world, A, MEMORY, MIB);
    memory(world, A, MEMORY + 1, 2 * MIB);
    memory(world, C, MEMORY, 4 * MIB);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    assert_int_equal(objects_dup(objects, A, DEVICE, 90, C, MEMORY), 0);
    map(world, PAGE, PAGE, C, MEMORY);
    objects_owner_gone(objects, 1);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(sum(world, 2), 5 * MIB);
    assert_int_equal(objects_class(objects, A, A, &class_id), -ENOENT);
    assert_int_equal(objects_class(objects, B, DEVICE, &class_id), -ENOENT);
    assert_int_equal(objects_range(objects, 1, PAGE, PAGE), -ENOENT); /* the space is gone */
    objects_owner_gone(objects, 1);
    objects_owner_gone(objects, 2);
    assert_int_equal(sum(world, 2), 0);
    assert_int_equal(items(world), 0);
}

TEST(owners_share, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned events;

    /* Process 3 uses what 1 made: client A and the space. */
    memory(world, A, MEMORY, MIB);
    memory(world, A, MEMORY + 1, 2 * MIB);
    memory(world, B, MEMORY, 4 * MIB);
    map(world, PAGE, PAGE, B, MEMORY);
    assert_int_equal(objects_client(objects, A, 3), 0);
    assert_int_equal(objects_client(objects, A, 3), 0);
    assert_int_equal(objects_space(objects, 1, 3), 0);
    assert_int_equal(objects_client(objects, A, 1), 0);
    assert_int_equal(sum(world, 3), 0);
    take_changes(world);
    events = world->charges;
    objects_owner_gone(objects, 1);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(sum(world, 3), 7 * MIB);
    assert_true(world->charges <= events + 4); /* not one for each allocation */
    /* One that comes back is a newer user. */
    assert_int_equal(objects_client(objects, A, 1), 0);
    assert_int_equal(sum(world, 1), 0);
    objects_owner_gone(objects, 1);
    assert_int_equal(sum(world, 3), 7 * MIB);
    objects_owner_gone(objects, 3);
    assert_int_equal(objects_total(objects, 0), 0);
}

TEST(owners_inherit, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned count;

    memory(world, A, MEMORY, MIB);
    memory(world, C, MEMORY, 2 * MIB);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    count = items(world);
    assert_int_equal(objects_inherit(objects, 1, 1), 0);
    assert_int_equal(objects_inherit(objects, 1, 3), 0); /* a new one */
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(sum(world, 3), MIB);
    assert_int_equal(items(world), count);
    assert_int_equal(objects_client(objects, A, 2), 0);
    assert_int_equal(objects_inherit(objects, 3, 2),
                     0); /* one that is there, and uses one of the clients */
    assert_int_equal(sum(world, 3), 0);
    assert_int_equal(sum(world, 2), 3 * MIB);
    objects_owner_gone(objects, 1);
    objects_owner_gone(objects, 3);
    assert_int_equal(sum(world, 2), 3 * MIB);
    objects_owner_gone(objects, 2);
    assert_int_equal(items(world), 0);
}

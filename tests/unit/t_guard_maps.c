/* The rules and limits of guard/track/objects.h for UVM's mappings. */
#include "guard_world.h"

/* calloc() fails at the call of this number, counted from 1; 0: never. By --wrap. */
static unsigned failing, calls;
static bool all_fail;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (all_fail || (failing && ++calls == failing)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

TEST(mapped_and_freed, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world);

    memory(world, A, MEMORY, MIB);
    map(world, PAGE, PAGE, A, MEMORY);
    assert_int_equal(sum(world, 1), MIB);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(sum(world, 1), MIB); /* still there, by the mapping */
    /* The handle is free for another. */
    memory(world, A, MEMORY, 2 * MIB);
    assert_int_equal(sum(world, 1), 3 * MIB);
    assert_int_equal(objects_remove(objects, A, A), 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap_all(objects, 1, PAGE);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(items(world), before - 4); /* client, its use, device, subdevice */
    /* Memory of another process: its owner changes when the owner's handle is gone. */
    memory(world, C, MEMORY, MIB);
    map(world, PAGE, PAGE, C, MEMORY);
    assert_int_equal(sum(world, 2), MIB);
    assert_int_equal(objects_remove(objects, C, MEMORY), 0);
    assert_int_equal(sum(world, 2), 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_space_gone(objects, 1);
    assert_int_equal(sum(world, 1), 0);
}

TEST(unmapped_in_part, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;

    memory(world, A, MEMORY, MIB);
    map(world, 10 * PAGE, 10 * PAGE, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, 9 * PAGE, PAGE, 0);       /* before it */
    objects_unmap(objects, 1, 20 * PAGE, PAGE, 0);      /* behind it */
    objects_unmap(objects, 1, 10 * PAGE, 10 * PAGE, 1); /* another device */
    objects_unmap(objects, 1, 14 * PAGE, 2 * PAGE, 0);  /* its middle */
    objects_unmap(objects, 1, 14 * PAGE, 2 * PAGE, 0);
    objects_unmap(objects, 1, 9 * PAGE, 2 * PAGE,
                  0); /* its beginning: 11, 12, 13, 16, 17, 18, 19 are left */
    objects_unmap(objects, 1, 19 * PAGE, 9 * PAGE, 0); /* its end */
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 16 * PAGE, 3 * PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 12 * PAGE, PAGE, 0);
    objects_unmap(objects, 1, 11 * PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 13 * PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), 0);
    /* What is left is as old as the mapping was: older than the duplicate. */
    memory(world, A, MEMORY, MIB);
    map(world, 10 * PAGE, 10 * PAGE, A, MEMORY);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, 14 * PAGE, 2 * PAGE, 0);
    objects_unmap(objects, 1, 10 * PAGE, 5 * PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 10 * PAGE, 10 * PAGE, 0);
    assert_int_equal(sum(world, 2), MIB);
    assert_int_equal(objects_remove(objects, C, 90), 0);
    /* At the end of the address space, and all of it. */
    memory(world, A, MEMORY, MIB);
    map(world, 0 - PAGE, PAGE, A, MEMORY);
    map(world, 0, UINT64_MAX, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, 0 - PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 0, 0 - PAGE, 0);
    assert_int_equal(sum(world, 1), 0);
}

/* The driver would put the new mapping in the place of the old one; whether it did is not known. */
TEST(mapped_over, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;

    memory(world, A, MEMORY, MIB);
    memory(world, A, MEMORY + 1, 2 * MIB);
    map(world, PAGE, 4 * PAGE, A, MEMORY);
    map(world, 2 * PAGE, PAGE, A, MEMORY + 1);
    map(world, PAGE, 4 * PAGE, A, MEMORY); /* the same again */
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY + 1), 0);
    assert_int_equal(sum(world, 1), 3 * MIB);
    objects_unmap(objects, 1, 2 * PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, PAGE, PAGE, 0);
    objects_unmap(objects, 1, 3 * PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 4 * PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), 0);
}

TEST(several_devices, world_setup, world_teardown)
{
    static const uint32_t gpus[] = {0, 5, 0xffffffff, 5};
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before;
    uint32_t many[OBJECTS_SPACE_GPUS + 1];

    memory(world, A, MEMORY, MIB);
    before = items(world);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, gpus, 4, A, MEMORY), 0);
    assert_int_equal(sum(world, 1), MIB);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, PAGE, PAGE, 5);
    objects_unmap(objects, 1, PAGE, PAGE, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, PAGE, PAGE, 0xffffffff);
    assert_int_equal(sum(world, 1), 0);

    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, gpus, 4, A, MEMORY), 0);
    objects_unmap_all(objects, 1, PAGE); /* on all devices */
    assert_int_equal(items(world), before);
    /* No more than the driver has; all or none. */
    for (unsigned i = 0; i <= OBJECTS_SPACE_GPUS; i++)
        many[i] = 1000 + i;
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, gpus, 0, A, MEMORY), 0);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, many, OBJECTS_SPACE_GPUS + 1, A, MEMORY),
                     -EINVAL);
    assert_int_equal(objects_map(objects, 1, 4 * PAGE, PAGE, gpus, 1, A, MEMORY), 0);
    before = items(world);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, many, OBJECTS_SPACE_GPUS, A, MEMORY),
                     -ENOSPC);
    assert_int_equal(items(world), before);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, many, OBJECTS_SPACE_GPUS - 1, A, MEMORY),
                     0);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap_all(objects, 1, PAGE);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap_all(objects, 1, 4 * PAGE);
    assert_int_equal(sum(world, 1), 0);
}

TEST(several_spaces, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    const uint32_t gpu = 0;

    assert_int_equal(objects_space(objects, 2, 1), 0);
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, &gpu, 1, A, MEMORY), 0);
    assert_int_equal(objects_map(objects, 2, PAGE, PAGE, &gpu, 1, A, MEMORY), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, PAGE, PAGE, 0);
    objects_unmap_all(objects, 1, PAGE);
    objects_space_gone(objects, 1);
    assert_int_equal(sum(world, 1), MIB);
    objects_space_gone(objects, 2);
    assert_int_equal(sum(world, 1), 0);
}

TEST(ranges, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world);

    memory(world, A, MEMORY, MIB);
    /* Of a known range all goes, and nothing beside it. */
    assert_int_equal(objects_range(objects, 1, 10 * PAGE, 10 * PAGE), 0);
    assert_int_equal(objects_range(objects, 1, 20 * PAGE, PAGE), 0);
    map(world, 11 * PAGE, PAGE, A, MEMORY);
    map(world, 19 * PAGE, PAGE, A, MEMORY);
    map(world, 20 * PAGE, PAGE, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap_all(objects, 1,
                      11 * PAGE); /* a mapping begins there, without a range: it is taken for one */
    objects_unmap_all(objects, 1, 10 * PAGE);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap_all(objects, 1, 20 * PAGE);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(items(world), before);

    /* Of an unknown one what begins with it, on every device. */
    memory(world, A, MEMORY, MIB);
    map(world, 10 * PAGE, PAGE, A, MEMORY);
    map(world, 10 * PAGE, 2 * PAGE, A, MEMORY);
    map(world, 11 * PAGE, PAGE, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap_all(objects, 1, 9 * PAGE);
    objects_unmap_all(objects, 1, 10 * PAGE);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap_all(objects, 1, 11 * PAGE);
    assert_int_equal(sum(world, 1), 0);

    /* A new one proves that what was in its place is gone. */
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_range(objects, 1, 10 * PAGE, 10 * PAGE), 0);
    map(world, 12 * PAGE, PAGE, A, MEMORY);
    map(world, 19 * PAGE, 2 * PAGE, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_range(objects, 1, 15 * PAGE, PAGE), 0);
    assert_int_equal(sum(world, 1), MIB); /* 20 is outside of both */
    assert_int_equal(objects_range(objects, 1, 20 * PAGE, PAGE), 0);
    assert_int_equal(sum(world, 1), 0);
}

TEST(limited)
{
    struct world world;
    struct objects *objects;
    const uint32_t gpu = 0;
    uint32_t handle = 100;

    assert_int_equal(world_new(&world, 40), 0);
    objects = world.objects;
    assert_int_equal(objects_reserve(objects), 0);
    assert_int_equal(objects_client(objects, A, 1), 0);
    assert_int_equal(objects_space(objects, 1, 1), 0);
    assert_int_equal(objects_range(objects, 1, PAGE, PAGE), 0);
    while (objects_reserve(objects) == 0) {
        assert_int_equal(objects_client(objects, A, 1), 0);
        assert_int_equal(objects_add_memory(objects, A, A, handle++, 0, MIB), 0);
    }
    assert_int_equal(objects_reserve(objects), -ENOSPC);
    assert_int_equal(objects_map(objects, 1, PAGE, 9 * PAGE, &gpu, 1, A, 100), 0);
    while (objects_add(objects, A, A, handle, 0x9999) == 0)
        handle++;
    assert_int_equal(items(&world), 40);
    assert_int_equal(objects_add_memory(objects, A, A, 99, 0, MIB), -ENOSPC);
    assert_int_equal(objects_add(objects, A, A, 99, 0x9999), -ENOSPC);
    assert_int_equal(objects_dup(objects, A, A, 99, A, 100), -ENOSPC);
    assert_int_equal(objects_client(objects, B, 1), -ENOSPC);
    assert_int_equal(objects_client(objects, A, 2), -ENOSPC);
    assert_int_equal(objects_client(objects, A, 1), 0);
    assert_int_equal(objects_space(objects, 2, 1), -ENOSPC);
    assert_int_equal(objects_space(objects, 1, 2), -ENOSPC);
    assert_int_equal(objects_range(objects, 1, 20 * PAGE, PAGE), -ENOSPC);
    assert_int_equal(objects_map(objects, 1, PAGE, PAGE, &gpu, 1, A, 100), -ENOSPC);
    assert_int_equal(items(&world), 40);
    /* A mapping that cannot be cut in two stays whole. */
    assert_int_equal(objects_remove(objects, A, 100), 0);
    assert_int_equal(objects_add(objects, A, A, handle++, 0x9999), 0);
    assert_int_equal(objects_add(objects, A, A, handle, 0x9999), -ENOSPC);
    objects_unmap(objects, 1, 5 * PAGE, PAGE, 0);
    assert_int_equal(items(&world), 40);
    /* An heir takes the place of whom it inherits from. */
    assert_int_equal(objects_inherit(objects, 1, 3), 0);
    assert_int_equal(items(&world), 40);
    assert_int_equal(sum_on(&world, 1, 0), 0);
    assert_int_equal(sum_on(&world, 3, 0), objects_total(objects, 0));
    objects_unmap(objects, 1, 5 * PAGE, 5 * PAGE, 0);
    objects_unmap(objects, 1, PAGE, 4 * PAGE, 0);
    assert_true(items(&world) < 40);
    objects_owner_gone(objects, 3);
    assert_int_equal(items(&world), 0);
    assert_int_equal(objects_total(objects, 0), 0);
    objects_free(objects);
}

/* More than a driver would have of mappings in one place are refused, in whatever order they
 * come. */
TEST(overlapping, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    const uint32_t gpu = 0;
    uint64_t middle = 1ULL << 40;

    memory(world, A, MEMORY, MIB);
    for (uint64_t i = 1; i <= OBJECTS_OVERLAPS; i++)
        map(world, middle - i * PAGE, 2 * i * PAGE, A, MEMORY);
    assert_int_equal(objects_map(objects, 1, 0, 2 * middle, &gpu, 1, A, MEMORY), -ENOSPC);
    assert_int_equal(objects_map(objects, 1, middle, PAGE, &gpu, 1, A, MEMORY), -ENOSPC);
    map(world, 4 * middle, PAGE, A, MEMORY);
    objects_unmap(objects, 1, middle, PAGE, 0);
    map(world, middle, PAGE, A, MEMORY);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    objects_unmap(objects, 1, 0, 2 * middle, 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap_all(objects, 1, 4 * middle);
    assert_int_equal(sum(world, 1), 0);
}

/* Everything that takes memory, with each of its allocations failing once: nothing is half done. */
TEST(no_memory)
{
    static const uint32_t gpus[] = {0, 1, 2};
    unsigned failed = 0;
    bool done = false;

    for (unsigned at = 1; !done; at++) {
        struct world world;
        struct objects *objects;
        unsigned failures = 0;
        uint64_t charged = 0;

        assert_int_equal(world_new(&world, 10000), 0);
        objects = world.objects;
        calls = 0;
        failing = at;
        for (uint32_t i = 1; i <= 70; i++) {
            int rc[12] = {0};
            unsigned n = 0;

            rc[n++] = objects_client(objects, i, i % 3);
            rc[n++] = objects_client(objects, i, 7);
            rc[n++] = objects_space(objects, i, i % 3);
            rc[n++] = objects_add_memory(objects, i, i, 1000 + i, 0, MIB);
            rc[n++] = objects_dup(objects, i, i, 2000 + i, i, 1000 + i);
            rc[n++] = objects_range(objects, i, PAGE, 9 * PAGE);
            rc[n++] = objects_map(objects, i, PAGE, 9 * PAGE, gpus, 3, i, 2000 + i);
            rc[n++] = objects_file(objects, i, i % 3);
            rc[n++] = objects_file_prepare(objects, i, 5, i, 2000 + i);
            objects_file_commit(objects, i, 5);
            objects_unmap(objects, i, 4 * PAGE, PAGE, 1);
            rc[n++] = objects_add(objects, i, i, 3000 + i, 0x9999);
            rc[n++] = i == 60 ? objects_inherit(objects, 0, 6) : 0;
            for (unsigned j = 0; j < n; j++) {
                failures += rc[j] == -ENOMEM;
                /* What follows may miss what has failed. */
                assert_true(rc[j] == 0 || rc[j] == -ENOMEM || (failures && rc[j] == -ENOENT));
            }
        }
        done = calls < failing;
        failing = 0;
        failed += failures != 0;
        for (unsigned owner = 0; owner < 8; owner++)
            charged += sum_on(&world, owner, 0);
        assert_int_equal(charged, objects_total(objects, 0));
        for (unsigned owner = 0; owner < 8; owner++) {
            if (at % 2)
                objects_owner_gone(objects, owner);
        }
        if (at % 2) {
            assert_int_equal(items(&world), 0);
            assert_int_equal(objects_total(objects, 0), 0);
        }
        objects_free(objects);
    }
    assert_true(failed > 100);
}

TEST(reserved)
{
    struct objects *objects;
    unsigned failures = 0;

    assert_int_equal(objects_new(&world_classes, OBJECTS_LIMIT, &objects), 0);
    for (uint32_t i = 1; i < 3000; i++) {
        int rc;

        failing = 1 + i % 5;
        calls = 0;
        rc = objects_reserve(objects);
        failing = 0;
        if (rc) {
            assert_int_equal(rc, -ENOMEM);
            failures++;
            assert_int_equal(objects_reserve(objects), 0);
        }
        all_fail = true;
        rc = objects_client(objects, i, i);
        rc = rc ? rc : objects_add_memory(objects, i, i, i + 1, 0, MIB);
        all_fail = false;
        assert_int_equal(rc, 0);
    }
    assert_true(failures > 100);
    objects_free(objects);
}

/* A tree as deep as it can be made, ended at once. */
TEST(deep, world_setup, world_teardown)
{
    enum { DEEP = 1000000 };
    struct world *world = *state;
    uint32_t device = 0;

    objects_free(world->objects);
    assert_int_equal(world_new(world, OBJECTS_LIMIT), 0);
    assert_int_equal(objects_client(world->objects, A, 1), 0);
    assert_int_equal(objects_add(world->objects, A, A, 1, RM_CLASS_DEVICE), 0);
    for (uint32_t i = 2; i <= DEEP; i++)
        assert_int_equal(objects_add(world->objects, A, i - 1, i, 0x9999), 0);
    assert_int_equal(objects_device(world->objects, A, DEEP, &device), 0);
    assert_int_equal(device, 1);
    assert_int_equal(objects_add_memory(world->objects, A, DEEP, DEEP + 1, 0, MIB), 0);
    assert_int_equal(objects_remove(world->objects, A, 1), 0);
    take_changes(world);
    assert_int_equal(world->removals, DEEP);
    assert_int_equal(world->removed[(DEEP - 1) % 16], 1);
    assert_int_equal(world->removed[(DEEP - 2) % 16], 2);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(items(world), 3);
}

TEST(million, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world);
    const uint32_t gpu = 0;

    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t handle = 0x10000 + i; /* a new one each time, as libcuda does */

        if (objects_reserve(objects) || objects_client(objects, A, 1) ||
            objects_add_memory(objects, A, DEVICE, handle, 0, MIB) ||
            objects_range(objects, 1, i * PAGE, PAGE) ||
            objects_map(objects, 1, i * PAGE, PAGE, &gpu, 1, A, handle) ||
            sum_on(world, 1, 0) != MIB)
            fail_msg("at %u", i);
        if (i % 2)
            objects_unmap_all(objects, 1, i * PAGE);
        if (objects_remove(objects, A, handle))
            fail_msg("at %u", i);
        if (i % 2 == 0)
            objects_unmap_all(objects, 1, i * PAGE);
        if (items(world) != before || sum_on(world, 1, 0) != 0)
            fail_msg("at %u", i);
    }
}

static void hold(struct world *world, uint32_t file, uint32_t place, uint32_t client,
                 uint32_t handle)
{
    assert_int_equal(objects_file_prepare(world->objects, file, place, client, handle), 0);
    objects_file_commit(world->objects, file, place);
}

/* A duplicate of what a file holds, whose other references may be gone. */
TEST(held_by_a_file, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before = items(world), gpu = 9;
    uint64_t bytes = 0;

    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_file_prepare(objects, 7, 3, A, MEMORY), -ENOENT);
    assert_int_equal(objects_file(objects, 7, 1), 0);
    assert_int_equal(objects_file_prepare(objects, 7, 3, A, MEMORY), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(sum(world, 1), MIB); /* it is about to be held, */
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 89, 7, 3), 0);
    assert_int_equal(objects_memory(objects, C, 89, &gpu, &bytes), -ENOENT);
    objects_file_commit(objects, 7, 3); /* and is */
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 90, 7, 3), 0);
    assert_int_equal(objects_memory(objects, C, 90, &gpu, &bytes), 0);
    assert_true(gpu == 0 && bytes == MIB);
    assert_int_equal(sum(world, 1), MIB);
    objects_file_gone(objects, 7);
    assert_int_equal(sum(world, 1), 0);
    assert_int_equal(sum(world, 2), MIB);
    assert_int_equal(objects_remove(objects, C, 90), 0);
    assert_int_equal(objects_remove(objects, C, 89), 0);
    assert_int_equal(sum(world, 2), 0);
    assert_int_equal(items(world), before);
    /* In another place or file there is nothing. */
    assert_int_equal(objects_file(objects, 7, 1), 0);
    memory(world, A, MEMORY, MIB);
    hold(world, 7, 3, A, MEMORY);
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 90, 7, 4), 0);
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 91, 1, 3), 0);
    for (uint32_t handle = 90; handle < 92; handle++)
        assert_int_equal(objects_memory(objects, C, handle, &gpu, &bytes), -ENOENT);
    assert_int_equal(objects_dup_held(objects, 77, DEVICE, 90, 7, 3), -ENOENT);
    assert_int_equal(objects_dup_held(objects, C, DEVICE, C, 7, 3), -EINVAL);
    /* In the place of the only other reference. */
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 93, 7, 3), 0);
    objects_file_commit(objects, 7, 3); /* nothing was prepared */
    assert_int_equal(objects_dup(objects, C, DEVICE, 93, C, 93), 0);
    assert_int_equal(sum(world, 2), MIB);
}

/* What is in a place is replaced, or kept if the call fails. */
TEST(places_of_a_file, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    unsigned before;

    assert_int_equal(objects_file(objects, 7, 1), 0);
    before = items(world);
    memory(world, A, MEMORY, MIB);
    memory(world, A, MEMORY + 1, 2 * MIB);
    hold(world, 7, 0, A, MEMORY);
    assert_int_equal(objects_file_prepare(objects, 7, 0, A, MEMORY + 1), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_remove(objects, A, MEMORY + 1), 0);
    assert_int_equal(sum(world, 1), 3 * MIB);
    objects_file_cancel(objects, 7, 0);
    assert_int_equal(sum(world, 1), MIB);
    memory(world, A, MEMORY + 1, 2 * MIB);
    hold(world, 7, 0, A, MEMORY + 1);
    assert_int_equal(objects_remove(objects, A, MEMORY + 1), 0);
    assert_int_equal(sum(world, 1), 2 * MIB);
    /* What is no memory is not held. */
    hold(world, 7, 0, A, DEVICE);
    assert_int_equal(sum(world, 1), 0);
    objects_file_cancel(objects, 7, 0);
    objects_file_cancel(objects, 9, 0);
    assert_int_equal(items(world), before);
    /* A file lives as long as one of those that have used it. */
    memory(world, C, MEMORY, MIB);
    assert_int_equal(objects_file(objects, 7, 2), 0);
    hold(world, 7, 0, C, MEMORY);
    assert_int_equal(objects_remove(objects, C, MEMORY), 0);
    assert_int_equal(sum(world, 1), MIB);
    objects_owner_gone(objects, 1);
    assert_int_equal(sum(world, 2), MIB);
    objects_owner_gone(objects, 2);
    assert_int_equal(sum(world, 2), 0);
    assert_int_equal(items(world), 0);
}

/* What some client has an object for, however many and whoever is charged. */
TEST(named, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;

    assert_int_equal(objects_named(objects, 0), 0);
    memory(world, A, MEMORY, MIB);
    assert_int_equal(objects_dup(objects, A, DEVICE, 90, A, MEMORY), 0);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    map(world, PAGE, 4 * PAGE, A, MEMORY);
    assert_int_equal(objects_file(objects, 7, 1), 0);
    hold(world, 7, 0, A, MEMORY);
    assert_int_equal(objects_named(objects, 0), MIB);
    assert_int_equal(objects_named(objects, 1), 0);
    assert_int_equal(objects_named(objects, VGPU_DEVICES_MAX), 0);
    assert_int_equal(objects_remove(objects, A, A), 0);
    assert_int_equal(objects_named(objects, 0), MIB);
    assert_int_equal(objects_remove(objects, C, 90), 0);
    assert_int_equal(objects_named(objects, 0), 0); /* mapped and held only */
    assert_int_equal(sum(world, 1), MIB);
    objects_unmap(objects, 1, 2 * PAGE, PAGE, 0); /* in two parts */
    assert_int_equal(objects_dup_held(objects, C, DEVICE, 90, 7, 0), 0);
    assert_int_equal(objects_named(objects, 0), MIB);
    objects_space_gone(objects, 1);
    objects_file_gone(objects, 7);
    assert_int_equal(objects_named(objects, 0), MIB);
    objects_owner_gone(objects, 2);
    assert_int_equal(objects_named(objects, 0), 0);
}

/* Others' memory: known of, in all ways, and charged to nobody. */
TEST(foreign, world_setup, world_teardown)
{
    struct world *world = *state;
    struct objects *objects = world->objects;
    uint64_t bytes = 0;
    unsigned gpu = 9;

    assert_int_equal(objects_add_foreign(objects, A, DEVICE, MEMORY, VGPU_DEVICES_MAX, MIB),
                     -EINVAL);
    assert_int_equal(objects_add_foreign(objects, A, DEVICE, MEMORY, 0, MIB), 0);
    assert_int_equal(objects_memory(objects, A, MEMORY, &gpu, &bytes), 0);
    assert_true(gpu == 0 && bytes == MIB);
    assert_int_equal(objects_dup(objects, C, DEVICE, 90, A, MEMORY), 0);
    map(world, PAGE, PAGE, A, MEMORY);
    assert_int_equal(objects_named(objects, 0), MIB);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_named(objects, 0), MIB);
    memory(world, A, MEMORY, 2 * MIB);
    assert_int_equal(objects_named(objects, 0), 3 * MIB);
    assert_int_equal(sum(world, 1), 2 * MIB);
    assert_int_equal(objects_inherit(objects, 2, 3), 0);
    objects_space_gone(objects, 1);
    assert_int_equal(objects_remove(objects, C, C), 0);
    assert_int_equal(objects_named(objects, 0), 2 * MIB);
    assert_int_equal(objects_remove(objects, A, MEMORY), 0);
    assert_int_equal(objects_named(objects, 0), 0);
    assert_true(sum(world, 1) == 0 && sum(world, 2) == 0 && sum(world, 3) == 0 &&
                objects_total(objects, 0) == 0);
    assert_int_equal(world->charges, 2); /* the other memory's */
}

/*
 * The guard's model against a naive one, which searches lists and computes each answer anew. Random
 * operations run in a world so small that all kinds of collisions happen. The test compares the
 * models after each operation.
 */
#include "guard_world.h"

#include <limits.h>

#define CLIENTS 4
#define HANDLES 14 /* 1..13 */
#define OWNERS  6  /* 1..5 */
#define SPACES  3
#define GPUS    3
#define PLACES  24 /* addresses are 0..23 */
#define LIST    4096

enum { CLIENT, SPACE };

struct holder {
    bool live;
    uint32_t users[OWNERS]; /* oldest first; 0: end */
};

struct thing { /* an object */
    uint32_t client, handle, parent, class_id;
    unsigned memory; /* 0: none; else the number of an allocation */
    uint64_t age;
};

struct piece { /* a mapping */
    unsigned space, gpu, memory;
    uint64_t first, last, age;
};

struct room { /* a range */
    unsigned space;
    uint64_t first, last;
};

struct block { /* an allocation */
    unsigned gpu;
    uint64_t bytes;
};

static struct holder holders[2][CLIENTS + 1];
static struct thing things[LIST];
static struct piece pieces[LIST];
static struct room rooms[LIST];
static struct block blocks[400000];
static unsigned thing_count, piece_count, room_count, block_count;
static uint64_t ages;

/*
 * The naive model.
 */

static void naive_reset(void)
{
    memset(holders, 0, sizeof(holders));
    thing_count = piece_count = room_count = block_count = 0;
}

static struct thing *naive_find(uint32_t client, uint32_t handle)
{
    for (unsigned i = 0; i < thing_count; i++) {
        if (things[i].client == client && things[i].handle == handle)
            return &things[i];
    }
    return NULL;
}

static void naive_use(unsigned kind, unsigned number, uint32_t owner)
{
    struct holder *holder = &holders[kind][number];
    unsigned i = 0;

    holder->live = true;
    while (holder->users[i] && holder->users[i] != owner)
        i++;
    holder->users[i] = owner;
}

/* With everything that has it above itself. */
static void naive_remove(uint32_t client, uint32_t handle)
{
    struct thing *thing = naive_find(client, handle);

    if (thing)
        *thing = things[--thing_count];
    for (unsigned i = 0; i < thing_count; i++) {
        if (things[i].client == client && things[i].parent == handle) {
            naive_remove(client, things[i].handle);
            i = UINT_MAX; /* from the start: things have moved */
        }
    }
}

static void naive_put(uint32_t client, uint32_t parent, uint32_t handle, uint32_t class_id,
                      unsigned memory)
{
    naive_remove(client, handle);
    if (parent != client && !naive_find(client, parent))
        parent = client;
    things[thing_count++] = (struct thing){client, handle, parent, class_id, memory, ++ages};
}

static void naive_unmap(unsigned space, int gpu, uint64_t first, uint64_t last)
{
    unsigned count = piece_count;

    for (unsigned i = 0; i < count; i++) {
        struct piece *piece = &pieces[i];

        if (piece->space != space || (gpu >= 0 && piece->gpu != (unsigned)gpu) ||
            piece->last < first || piece->first > last)
            continue;
        if (piece->last > last) {
            /* What is left above it, another one where there is something left below it, too. */
            struct piece rest = *piece;

            rest.first = last + 1;
            if (piece->first < first) {
                pieces[piece_count++] = rest;
                piece->last = first - 1;
            } else {
                *piece = rest;
            }
        } else if (piece->first < first) {
            piece->last = first - 1;
        } else {
            piece->space = UINT_MAX;
        }
    }
    for (unsigned i = 0; i < piece_count;) {
        if (pieces[i].space == UINT_MAX)
            pieces[i] = pieces[--piece_count];
        else
            i++;
    }
}

static void naive_room_gone(unsigned i)
{
    struct room room = rooms[i];

    rooms[i] = rooms[--room_count];
    naive_unmap(room.space, -1, room.first, room.last);
}

static void naive_range(unsigned space, uint64_t first, uint64_t last)
{
    for (unsigned i = room_count; i-- > 0;) {
        if (rooms[i].space == space && rooms[i].first <= last && rooms[i].last >= first)
            naive_room_gone(i);
    }
    naive_unmap(space, -1, first, last);
    rooms[room_count++] = (struct room){space, first, last};
}

static void naive_unmap_all(unsigned space, uint64_t first)
{
    for (unsigned i = 0; i < room_count; i++) {
        if (rooms[i].space == space && rooms[i].first == first) {
            naive_room_gone(i);
            return;
        }
    }
    for (unsigned i = piece_count; i-- > 0;) {
        if (pieces[i].space == space && pieces[i].first == first)
            pieces[i] = pieces[--piece_count];
    }
}

static void naive_end(unsigned kind, unsigned number)
{
    memset(&holders[kind][number], 0, sizeof(holders[kind][number]));
    if (kind == CLIENT) {
        naive_remove(number + A, number + A);
        return;
    }
    naive_unmap(number, -1, 0, UINT64_MAX);
    for (unsigned i = room_count; i-- > 0;) {
        if (rooms[i].space == number)
            rooms[i] = rooms[--room_count];
    }
}

/* It has to be there. Where the heir is a user already, or is 0, the others move up. */
static void naive_user_gone(unsigned kind, unsigned number, uint32_t owner, uint32_t heir)
{
    struct holder *holder = &holders[kind][number];
    unsigned at = OWNERS;

    for (unsigned i = 0; i < OWNERS; i++) {
        if (holder->users[i] == owner)
            at = i;
        if (holder->users[i] == heir)
            heir = 0;
    }
    if (at == OWNERS)
        return;
    holder->users[at] = heir;
    for (unsigned i = at; !heir && i + 1 < OWNERS; i++)
        holder->users[i] = holder->users[i + 1];
    if (!holder->users[0])
        naive_end(kind, number);
}

static void naive_owner_gone(uint32_t owner, uint32_t heir)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        naive_user_gone(CLIENT, i, owner, heir);
    for (unsigned i = 0; i < SPACES; i++)
        naive_user_gone(SPACE, i, owner, heir);
}

/* All sums: for each allocation its oldest reference. */
static void naive_sums(uint64_t ret_sums[OWNERS][GPUS])
{
    uint64_t sums[OWNERS][GPUS] = {{0}};

    for (unsigned pass = 0; pass < thing_count + piece_count; pass++) {
        bool is_thing = pass < thing_count, oldest = true;
        unsigned i = is_thing ? pass : pass - thing_count;
        unsigned memory_number = is_thing ? things[i].memory : pieces[i].memory;
        uint64_t age = is_thing ? things[i].age : pieces[i].age;
        const struct holder *holder =
            is_thing ? &holders[CLIENT][things[i].client - A] : &holders[SPACE][pieces[i].space];

        for (unsigned j = 0; j < thing_count && oldest; j++)
            oldest = things[j].memory != memory_number || things[j].age >= age;
        /* Parts of one mapping are of one age: the first of them. */
        for (unsigned j = 0; j < piece_count && oldest; j++)
            oldest =
                pieces[j].memory != memory_number || pieces[j].age >= age + (!is_thing && j < i);
        if (memory_number && oldest)
            sums[holder->users[0]][blocks[memory_number].gpu] += blocks[memory_number].bytes;
    }
    memcpy(ret_sums, sums, sizeof(sums));
}

/*
 * Both.
 */

static uint64_t random_state;

static unsigned below(unsigned bound)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(random_state >> 33) % bound;
}

static bool room_for_more(void)
{
    return thing_count < 60 && piece_count < 60;
}

static uint32_t some_class(void)
{
    static const uint32_t classes[] = {RM_CLASS_DEVICE, RM_CLASS_SUBDEVICE, 0x9999, 0xc86f,
                                       RM_CLASS_MEMORY_SYSTEM};

    return classes[below(5)];
}

static void both_add(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle)
{
    uint32_t class_id = some_class();
    int rc = objects_add(objects, client, parent, handle, class_id);

    assert_int_equal(rc, holders[CLIENT][client - A].live ? 0 : -ENOENT);
    if (rc == 0)
        naive_put(client, parent, handle, class_id, 0);
}

static void both_add_memory(struct objects *objects, uint32_t client, uint32_t parent,
                            uint32_t handle)
{
    unsigned gpu = below(GPUS);
    uint64_t bytes = 1 + below(1000000);
    int rc = objects_add_memory(objects, client, parent, handle, gpu, bytes);

    assert_int_equal(rc, holders[CLIENT][client - A].live ? 0 : -ENOENT);
    if (rc == 0) {
        assert_true(block_count + 1 < sizeof(blocks) / sizeof(blocks[0]));
        blocks[++block_count] = (struct block){gpu, bytes};
        naive_put(client, parent, handle, RM_CLASS_MEMORY_LOCAL_USER, block_count);
    }
}

static void both_dup(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle)
{
    uint32_t source_client = A + below(CLIENTS), source_handle = 1 + below(HANDLES - 1);
    const struct thing *source = naive_find(source_client, source_handle);
    uint32_t class_id = source ? source->class_id : 0;
    unsigned number = source ? source->memory : 0;
    int rc = objects_dup(objects, client, parent, handle, source_client, source_handle);

    assert_int_equal(rc, holders[CLIENT][client - A].live ? 0 : -ENOENT);
    if (rc == 0)
        naive_put(client, parent, handle, class_id, number);
}

static void both_map(struct objects *objects, unsigned space, uint64_t first, uint64_t length)
{
    uint32_t client = A + below(CLIENTS), handle = 1 + below(HANDLES - 1);
    uint32_t gpus[GPUS];
    unsigned count = 1 + below(GPUS);
    const struct thing *thing = naive_find(client, handle);
    int rc;

    for (unsigned i = 0; i < count; i++)
        gpus[i] = below(GPUS);
    rc = objects_map(objects, space, first, length, gpus, count, client, handle);
    assert_int_equal(rc, holders[SPACE][space].live ? 0 : -ENOENT);
    for (unsigned i = 0; rc == 0 && thing && thing->memory && i < count; i++)
        pieces[piece_count++] =
            (struct piece){space, gpus[i], thing->memory, first, first + length - 1, ++ages};
}

static void both_owner(struct objects *objects, unsigned choice, uint32_t owner)
{
    uint32_t heir = 1 + below(OWNERS - 1);

    if (choice < 2) {
        objects_owner_gone(objects, owner);
        naive_owner_gone(owner, 0);
    } else {
        assert_int_equal(objects_inherit(objects, owner, heir), 0);
        if (heir != owner)
            naive_owner_gone(owner, heir);
    }
}

static void both_objects(struct objects *objects, unsigned choice)
{
    uint32_t client = A + below(CLIENTS), parent = below(3) ? 1 + below(HANDLES - 1) : client;
    uint32_t handle = 1 + below(HANDLES - 1), owner = 1 + below(OWNERS - 1);
    int rc;

    if (choice < 8 || (choice < 46 && !room_for_more())) {
        rc = objects_remove(objects, client, handle);
        assert_int_equal(rc, naive_find(client, handle) ? 0 : -ENOENT);
        naive_remove(client, handle);
    } else if (choice < 20) {
        both_add(objects, client, parent, handle);
    } else if (choice < 34) {
        both_add_memory(objects, client, parent, handle);
    } else if (choice < 46) {
        both_dup(objects, client, parent, handle);
    } else if (choice < 54) {
        assert_int_equal(objects_client(objects, client, owner), 0);
        naive_use(CLIENT, client - A, owner);
    } else if (below(6)) {
        return; /* ends of much are rarer */
    } else if (choice < 56) {
        rc = objects_remove(objects, client, client);
        assert_int_equal(rc, holders[CLIENT][client - A].live ? 0 : -ENOENT);
        naive_end(CLIENT, client - A);
    } else {
        both_owner(objects, choice - 56, owner);
    }
}

static void both_maps(struct objects *objects, unsigned choice)
{
    unsigned space = below(SPACES), gpu = below(GPUS);
    uint64_t first = below(PLACES), length = 1 + below(8);
    uint32_t owner = 1 + below(OWNERS - 1);

    if (choice < 20 && room_for_more()) {
        both_map(objects, space, first, length);
    } else if (choice < 30) {
        length = (length + 1) / 2;
        objects_unmap(objects, space, first, length, gpu);
        naive_unmap(space, (int)gpu, first, first + length - 1);
    } else if (choice < 32) {
        objects_unmap_all(objects, space, first);
        naive_unmap_all(space, first);
    } else if (choice < 33) {
        int rc = objects_range(objects, space, first, length);

        assert_int_equal(rc, holders[SPACE][space].live ? 0 : -ENOENT);
        if (rc == 0)
            naive_range(space, first, first + length - 1);
    } else if (choice < 39) {
        assert_int_equal(objects_space(objects, space, owner), 0);
        naive_use(SPACE, space, owner);
    } else if (below(6) == 0) {
        objects_space_gone(objects, space);
        naive_end(SPACE, space);
    }
}

/*
 * Comparison.
 */

/* The nearest one of class device; 0: none. Every path ends at the client, which is no thing. */
static uint32_t naive_device(const struct thing *thing)
{
    while (thing && thing->class_id != RM_CLASS_DEVICE)
        thing = naive_find(thing->client, thing->parent);
    return thing ? thing->handle : 0;
}

static bool naive_is_subdevice(uint32_t client, uint32_t parent, uint32_t handle)
{
    const struct thing *thing = naive_find(client, handle);

    return thing && thing->parent == parent && thing->class_id == RM_CLASS_SUBDEVICE;
}

static void compare_object(const struct objects *objects, uint32_t client, uint32_t handle)
{
    const struct thing *thing = naive_find(client, handle);
    uint32_t class_id = 0, device = 0, subdevice = 0;
    uint64_t bytes = 0;
    unsigned gpu = 0;
    bool has_subdevice = false;

    assert_int_equal(objects_class(objects, client, handle, &class_id), thing ? 0 : -ENOENT);
    assert_int_equal(class_id, thing ? thing->class_id : 0);
    objects_device(objects, client, handle, &device);
    assert_int_equal(device, naive_device(thing));
    assert_int_equal(objects_memory(objects, client, handle, &gpu, &bytes),
                     thing && thing->memory ? 0 : -ENOENT);
    if (thing && thing->memory)
        assert_true(gpu == blocks[thing->memory].gpu && bytes == blocks[thing->memory].bytes);
    for (uint32_t i = 1; i < HANDLES; i++)
        has_subdevice |= naive_is_subdevice(client, handle, i);
    assert_int_equal(objects_subdevice(objects, client, handle, &subdevice),
                     has_subdevice ? 0 : -ENOENT);
    assert_int_equal(naive_is_subdevice(client, handle, subdevice), has_subdevice);
}

static void compare(struct world *world, unsigned step)
{
    uint64_t sums[OWNERS][GPUS], totals[GPUS] = {0};

    naive_sums(sums);
    for (uint32_t owner = 1; owner < OWNERS; owner++) {
        for (unsigned gpu = 0; gpu < GPUS; gpu++) {
            assert_int_equal(sum_on(world, owner, gpu), sums[owner][gpu]);
            totals[gpu] += sums[owner][gpu];
        }
    }
    for (unsigned gpu = 0; gpu < GPUS; gpu++)
        assert_int_equal(objects_total(world->objects, gpu), totals[gpu]);
    /* All objects now and then, else two of them. */
    for (unsigned i = 0; i < CLIENTS * (HANDLES - 1); i++) {
        if (step % 64 == 0 || i % 26 == step % 26)
            compare_object(world->objects, A + i / (HANDLES - 1), 1 + i % (HANDLES - 1));
    }
}

TEST(against_the_naive_one)
{
    enum { SEEDS = 10, STEPS = 20000 };
    uint64_t charged = 0;

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct world world;
        unsigned step = 0;

        assert_int_equal(world_new(&world, OBJECTS_LIMIT), 0);
        naive_reset();
        random_state = seed;
        print_message("seed %u\n", seed);
        for (step = 0; step < STEPS; step++) {
            unsigned choice = below(100);

            if (choice < 59)
                both_objects(world.objects, choice);
            else
                both_maps(world.objects, choice - 59);
            compare(&world, step);
            charged += objects_total(world.objects, 0) != 0;
        }
        for (uint32_t owner = 1; owner < OWNERS; owner++) {
            objects_owner_gone(world.objects, owner);
            naive_owner_gone(owner, 0);
            compare(&world, 0);
        }
        assert_int_equal(items(&world), 0);
        objects_free(world.objects);
    }
    /* It was no empty world most of the time. */
    assert_true(charged > SEEDS * STEPS / 2);
}

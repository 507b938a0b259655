/* The allocation table and the granules, against a model, with threads, and after fork. */
#include "unit.h"

#include "account/track.h"

#include <pthread.h>
#include <stdlib.h>

static struct vgpu_track_entry entry_of(uint64_t key)
{
    return (struct vgpu_track_entry){
        .bytes = key * 3, .extra = ~key, .vdev = key % 17, .kind = key % 9};
}

static void assert_entry(const struct vgpu_track_entry *entry, uint64_t key)
{
    struct vgpu_track_entry right = entry_of(key);

    assert_int_equal(entry->bytes, right.bytes);
    assert_int_equal(entry->extra, right.extra);
    assert_int_equal(entry->vdev, right.vdev);
    assert_int_equal(entry->kind, right.kind);
}

static bool count_one(uint64_t key, struct vgpu_track_entry *entry, void *count)
{
    (void)key;
    (void)entry;
    ++*(uint64_t *)count;
    return false;
}

static uint64_t count_of(struct vgpu_track *track)
{
    uint64_t count = 0;

    track_sweep(track, 0, UINT64_MAX, count_one, &count);
    return count;
}

TEST(put_get_take)
{
    struct vgpu_track *track = track_new();
    struct vgpu_track_entry entry = entry_of(5), other = entry_of(6);

    assert_false(track_get(track, 5, &entry));
    assert_false(track_take(track, 5, &entry));
    assert_int_equal(track_put(track, 5, &other), 0);
    entry = entry_of(5);
    assert_int_equal(track_put(track, 5, &entry), 0);
    assert_int_equal(count_of(track), 1);
    assert_true(track_get(track, 5, &entry));
    assert_entry(&entry, 5);
    /* Keys that an own marker might collide with. */
    entry = entry_of(0);
    assert_int_equal(track_put(track, 0, &entry), 0);
    entry = entry_of(UINT64_MAX);
    assert_int_equal(track_put(track, UINT64_MAX, &entry), 0);
    assert_true(track_take(track, 0, &entry));
    assert_entry(&entry, 0);
    assert_false(track_take(track, 0, &entry));
    assert_true(track_take(track, UINT64_MAX, &entry));
    assert_true(track_take(track, 5, &entry));
    assert_int_equal(count_of(track), 0);
}

/* Random puts and takes of few keys, so that runs form, wrap and are shifted back; a bitmap is the
 * model. */
TEST(against_a_model)
{
    enum { KEYS = 20000, STEPS = 300000 };
    struct vgpu_track *track = track_new();
    bool *there = calloc(KEYS, sizeof(*there));
    struct vgpu_track_entry entry;
    unsigned seed = 42;
    uint64_t count = 0;

    for (int i = 0; i < STEPS; i++) {
        uint64_t index = (uint64_t)rand_r(&seed) % KEYS, key = 0x7f0000000000 + index * 512;

        if (rand_r(&seed) % 2) {
            entry = entry_of(key);
            assert_int_equal(track_put(track, key, &entry), 0);
            count += !there[index];
            there[index] = true;
        } else {
            assert_int_equal(track_take(track, key, &entry), there[index]);
            if (there[index])
                assert_entry(&entry, key);
            count -= there[index];
            there[index] = false;
        }
    }
    assert_int_equal(count_of(track), count);
    for (uint64_t index = 0; index < KEYS; index++) {
        uint64_t key = 0x7f0000000000 + index * 512;

        assert_int_equal(track_get(track, key, &entry), there[index]);
        if (there[index])
            assert_entry(&entry, key);
    }
    free(there);
}

struct seen {
    unsigned *times;
    unsigned remove_every;
};

static bool visit(uint64_t key, struct vgpu_track_entry *entry, void *arg)
{
    struct seen *seen = arg;

    seen->times[key]++;
    entry->extra = 99;
    return key % seen->remove_every == 0;
}

TEST(sweeps)
{
    enum { KEYS = 50000 };
    struct vgpu_track *track = track_new();
    struct seen seen = {calloc(KEYS, sizeof(unsigned)), 3};
    struct vgpu_track_entry entry;

    for (uint64_t key = 0; key < KEYS; key++) {
        entry = entry_of(key);
        assert_int_equal(track_put(track, key, &entry), 0);
    }
    track_sweep(track, 1000, 39999, visit, &seen);
    for (uint64_t key = 0; key < KEYS; key++) {
        bool inside = key >= 1000 && key <= 39999, removed = inside && key % 3 == 0;

        assert_int_equal(seen.times[key], inside);
        assert_int_equal(track_get(track, key, &entry), !removed);
        if (!removed)
            assert_int_equal(entry.extra, inside ? 99 : ~key);
    }
    assert_int_equal(count_of(track), KEYS - 13000);
    free(seen.times);
}

#define THREADS 4
#define ROUNDS  40000

static struct vgpu_track *shared_track;
static struct vgpu_granules *shared_granules;
static atomic_ullong block_bytes;

/* One kind of memory only. */
static uint64_t drop(struct vgpu_granules *granules, unsigned vdev, uint64_t address,
                     uint64_t bytes)
{
    struct granule_share left[GRANULE_SHARES];

    granule_drop(granules, vdev, 1, address, bytes, left);
    return left[0].bytes + left[1].bytes + left[2].bytes;
}

static void *hammer(void *arg)
{
    uint64_t base = 0x100000000ULL * (uintptr_t)arg, fresh = 0;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct vgpu_track_entry entry = entry_of(base + i % 1000);

        if (track_put(shared_track, base + i % 1000, &entry) != 0 ||
            granule_add(shared_granules, 0, 1, (i % 64) << 16, 512, &fresh) != 0)
            return arg;
        atomic_fetch_add(&block_bytes, fresh);
        atomic_fetch_sub(&block_bytes, drop(shared_granules, 0, (i % 64) << 16, 512));
        if (!track_take(shared_track, base + i % 1000, &entry) ||
            entry.bytes != (base + i % 1000) * 3)
            return arg;
    }
    return NULL;
}

TEST(threads)
{
    pthread_t thread[THREADS];
    void *failed;

    shared_track = track_new();
    shared_granules = granules_new(2 * MIB);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(count_of(shared_track), 0);
    assert_int_equal(atomic_load(&block_bytes), 0);
}

static int look_in_child(void *arg)
{
    struct vgpu_track *track = arg;
    struct vgpu_track_entry entry = entry_of(3);

    CHECK(count_of(track) == 0);
    CHECK(!track_get(track, 1, &entry));
    CHECK(track_put(track, 3, &entry) == 0 && track_take(track, 3, &entry));
    return 0;
}

TEST(fork_is_empty)
{
    struct vgpu_track *track = track_new();
    struct vgpu_track_entry entry = entry_of(1);

    assert_int_equal(track_put(track, 1, &entry), 0);
    assert_int_equal(finish(spawn(look_in_child, track)), 0);
    assert_int_equal(count_of(track), 1);
}

TEST(granule_cases)
{
    static const struct {
        uint64_t address, bytes, blocks;
    } cases[] = {
        {0, 1, 1},     {512, 512, 1},       {0, 2 * MIB, 1},       {1, 2 * MIB, 2},
        {MIB, MIB, 1}, {MIB, MIB + 1, 2},   {MIB, 4 * MIB, 3},     {2 * MIB, 40 * GIB, 20480},
        {0, 0, 0},     {2 * MIB - 1, 2, 2}, {2 * MIB, 3 * MIB, 2}, {5 * MIB, 5 * MIB, 3},
    };
    struct vgpu_granules *granules = granules_new(2 * MIB);
    uint64_t fresh = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(granule_add(granules, 1, 1, cases[i].address, cases[i].bytes, &fresh), 0);
        assert_int_equal(fresh, cases[i].blocks * 2 * MIB);
        assert_int_equal(drop(granules, 1, cases[i].address, cases[i].bytes),
                         cases[i].blocks * 2 * MIB);
    }
    /* Two small ones share a block; the same block of another device is another. */
    granule_add(granules, 0, 1, 0, 512, &fresh);
    assert_int_equal(fresh, 2 * MIB);
    granule_add(granules, 0, 1, 512, 512, &fresh);
    assert_int_equal(fresh, 0);
    granule_add(granules, 1, 1, 512, 512, &fresh);
    assert_int_equal(fresh, 2 * MIB);
    assert_int_equal(drop(granules, 0, 0, 512), 0);
    assert_int_equal(drop(granules, 0, 512, 512), 2 * MIB);
    assert_int_equal(drop(granules, 1, 512, 512), 2 * MIB);
    assert_int_equal(drop(granules, 1, 512, 512), 0);
}

/* Memory of two kinds in one block: what was charged to a kind goes back from it, whichever of them
 * is first to go. */
TEST(granule_kinds)
{
    struct vgpu_granules *granules = granules_new(2 * MIB);

    for (unsigned round = 0; round < 8; round++) {
        uint64_t charged[4] = {0}, fresh = 0, bytes[2] = {3 * MIB, round & 4 ? 3 * MIB : 5 * MIB};
        uint32_t kinds[2] = {1 + (round & 1), 2 - (round & 1)};

        /* The same address twice: the driver has freed the first by then, but we do not know
         * yet. */
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(granule_add(granules, 0, kinds[i], MIB, bytes[i], &fresh), 0);
            charged[kinds[i]] += fresh;
        }
        for (unsigned i = 0; i < 2; i++) {
            unsigned which = round & 2 ? i : 1 - i;
            struct granule_share left[GRANULE_SHARES];

            granule_drop(granules, 0, kinds[which], MIB, bytes[which], left);
            for (unsigned j = 0; j < GRANULE_SHARES; j++) {
                assert_in_range(left[j].bytes, 0, charged[left[j].kind]);
                charged[left[j].kind] -= left[j].bytes;
            }
        }
        assert_int_equal(charged[1], 0);
        assert_int_equal(charged[2], 0);
    }
}

/* A note leaves with whoever is the last in the block, and a block with a note is as new as any to
 * who comes next. */
TEST(granule_notes)
{
    static const struct {
        uint64_t bytes[2]; /* of allocations in one block; or of one that fills blocks */
        uint64_t left[2];
    } cases[] = {
        {{4096, 4096}, {0, 2 * MIB}}, {{5 * MIB, 0}, {6 * MIB, 0}}, {{2 * MIB, 0}, {2 * MIB, 0}}};
    struct vgpu_granules *granules = granules_new(2 * MIB);
    const uint64_t address = 64 * MIB;
    struct granule_share left[GRANULE_SHARES];
    char note, other;
    uint64_t fresh;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned count = cases[i].bytes[1] ? 2 : 1;

        for (unsigned j = 0; j < count; j++)
            assert_int_equal(
                granule_add(granules, 0, 1, address + j * 4096, cases[i].bytes[j], &fresh), 0);
        assert_null(granule_note(granules, 0, 1, address, NULL));
        assert_ptr_equal(granule_note(granules, 0, 1, address, &note), &note);
        assert_ptr_equal(granule_note(granules, 0, 1, address + (count - 1) * 4096, &other), &note);
        for (unsigned j = 0; j < count; j++) {
            granule_drop(granules, 0, 1, address + j * 4096, cases[i].bytes[j], left);
            assert_int_equal(left[0].bytes, cases[i].left[j]);
            assert_ptr_equal(left[0].note, j + 1 == count ? &note : NULL);
        }
        assert_null(granule_note(granules, 0, 1, address, NULL));
    }
    /* The driver has given the address of a whole block out again before we know that it was
     * freed. */
    assert_int_equal(granule_add(granules, 0, 1, address, 2 * MIB, &fresh), 0);
    assert_ptr_equal(granule_note(granules, 0, 1, address, &note), &note);
    assert_int_equal(granule_add(granules, 0, 2, address, 4096, &fresh), 0);
    assert_int_equal(fresh, 2 * MIB);
    granule_drop(granules, 0, 1, address, 2 * MIB, left);
    assert_int_equal(left[0].bytes, 2 * MIB);
    assert_ptr_equal(left[0].note, &note);
    granule_drop(granules, 0, 2, address, 4096, left);
    assert_int_equal(left[0].kind, 2);
    assert_int_equal(left[0].bytes, 2 * MIB);
    assert_null(left[0].note);
}

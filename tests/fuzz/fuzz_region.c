/*
 * Fuzzing what a region's file can hold: the input is a list of writes to it, each the place (4
 * bytes), how many bytes (1), and those. Then everything that reads a region is called, for a
 * process of the instance and for one of a group in it, with the same writes again in between.
 * Numbers may be wrong; nothing may crash or hang.
 *
 * In virtual time: who waits moves it.
 */
#include "fuzz.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/setting.h"
#include "account/ledger_internal.h"
#include "sched/usage.h"
#include "account/share.h"
#include "account/refuse.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANG_NS (1000 * NS_PER_S) /* each call waits for the lock for 2 s at most */

const uint64_t fuzz_iterations = 4000;

static struct vgpu_region *region;
static struct region_layout *pristine;
static uint64_t group, now_ns = 1000 * NS_PER_S;
static const uint8_t *writes;
static size_t writes_bytes;

uint64_t __wrap_clock_ns(void);
void __wrap_futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared);

uint64_t __wrap_clock_ns(void)
{
    return now_ns += 1000;
}

void __wrap_futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared)
{
    (void)shared;
    if (__atomic_load_n((unsigned *)word, __ATOMIC_RELAXED) != expected)
        return;
    if (timeout_ns == 0)
        abort(); /* for ever */
    now_ns += timeout_ns;
}

static void prepare(void)
{
    struct vgpu_limits limits = {.name = "fuzz", .device_count = 2};
    char path[64];
    bool created;

    setenv(setting_name(SETTING_LOG_LEVEL), "0", 1);
    limits.vdev[0].quota_bytes = 1 << 20;
    limits.vdev[0].cap_percent = 50;
    snprintf(path, sizeof(path), "/dev/shm/vgpu-fuzz-%d", getpid());
    unlink(path);
    pristine = malloc(sizeof(*pristine));
    if (!pristine || region_create(path, NULL, &limits, &region, &created) != 0)
        abort();
    limits.vdev[0] = (struct vgpu_limit){.quota_percent = 50, .cap_percent = 20};
    if (region_group_new(region, &limits, &group) != 0)
        abort();
    unlink(path);
    memcpy(pristine, region->layout, sizeof(*pristine));
}

static void write_all(void)
{
    size_t at = 0;

    while (at + 5 <= writes_bytes) {
        uint32_t place;
        size_t count = writes[at + 4];

        memcpy(&place, writes + at, sizeof(place));
        place %= sizeof(*pristine);
        at += 5;
        if (count > writes_bytes - at)
            count = writes_bytes - at;
        if (count > sizeof(*pristine) - place)
            count = sizeof(*pristine) - place;
        memcpy((char *)region->layout + place, writes + at, count);
        at += count;
    }
}

static bool any_key(uint64_t key, void *arg)
{
    (void)arg;
    return key != 0;
}

static void use_memory(struct vgpu_ledger *ledger)
{
    struct vgpu_proc_memory procs[4];
    uint64_t total, available;

    if (ledger_reserve(ledger, 0, 4096) == 0)
        ledger_commit(ledger, 0, VGPU_KIND_DATA, 4096, 1000);
    ledger_set(ledger, 1, VGPU_KIND_CONTEXT, 5000);
    ledger_device(ledger, 2, "GPU-fuzz", 1 << 30);
    write_all();
    if (ledger_reserve(ledger, 0, 1 << 16) == 0)
        ledger_settle(ledger, 0, VGPU_KIND_POOL, 1 << 16, 1 << 15);
    ledger_view(ledger, 0, 1 << 30, 1 << 30, &total, &available);
    if (total > 1 << 30 || available > 1 << 30)
        abort();
    ledger_quota(ledger, 0);
    ledger_context_cost(ledger, 0);
    ledger_refuse(ledger, 0, 77, "fuzz");
    if (ledger_processes(ledger, 0, procs, 4) > VGPU_PROCS_MAX)
        abort();
    ledger_release(ledger, 0, VGPU_KIND_DATA, 2000);
}

static void use_shares(struct vgpu_ledger *maker, struct vgpu_ledger *other)
{
    struct ledger_share_memory found;
    struct ledger_share share;

    ledger_reserve(maker, 0, 8192);
    if (ledger_share(maker, 0, VGPU_KIND_DATA, 8192, &share) != 0)
        return;
    ledger_share_key(maker, share, 77);
    write_all();
    if (ledger_share_find(other, any_key, NULL, &found)) {
        if (found.vdev >= VGPU_VDEVS || found.kind >= VGPU_KINDS)
            abort();
        ledger_share_join(other, found.share);
    }
    ledger_share_leave(maker, share, 0, VGPU_KIND_DATA, 8192);
    write_all();
    ledger_share_leave(other, share, 0, VGPU_KIND_DATA, 0);
}

static void use_region(void)
{
    struct vgpu_snapshot snapshot;
    struct vgpu_limits limits;
    uint64_t another;

    if (region_snapshot(region, &snapshot) == 0) {
        if (snapshot.proc_count > VGPU_PROCS_MAX || snapshot.refusal_count > VGPU_REFUSALS)
            abort();
        snapshot_done(&snapshot);
    }
    region_group_limits(region, group, &limits);
    usage_settings(region);
    for (unsigned i = 0; i < 2; i++) {
        usage_cap(region, i, 0);
        usage_copy_rate(region, i);
        usage_group_cap_policy(region, i);
    }
    usage_add(region, 0, (enum vgpu_work)0, 1, 1000000, now_ns);
    region_limits(region, &limits);
    region_adopt_limits(region, &limits);
    region_damage(region);
    write_all();
    region_group_new(region, &limits, &another);
    region_in_use(region);
}

static void use_everything(void)
{
    struct vgpu_ledger *ledger = NULL, *inner = NULL;
    unsigned vdev;
    uint64_t bytes;

    if (ledger_new(region, 0, &ledger) == 0)
        use_memory(ledger);
    if (ledger_new(region, group, &inner) == 0)
        use_memory(inner);
    if (ledger && inner) {
        use_shares(ledger, inner);
        write_all();
        use_shares(inner, ledger);
        ledger_put_away(ledger, getpid());
        write_all();
        ledger_bring_back(inner, getpid(), &vdev, &bytes);
    }
    use_region();
    if (inner)
        ledger_free(inner);
    if (ledger)
        ledger_free(ledger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t start_ns;

    if (!region)
        prepare();
    start_ns = now_ns;
    writes = data;
    writes_bytes = size;
    memcpy(region->layout, pristine, sizeof(*pristine));
    write_all();
    use_everything();
    if (now_ns - start_ns > HANG_NS)
        abort();
    return 0;
}

/* Where something is: the beginning of each table, and of it the first entries. */
static uint32_t random_place(uint64_t (*random)(void))
{
    /* clang-format off */
    static const struct { size_t at, bytes; } parts[] = {
        {0, 256}, {0, offsetof(struct region_layout, vdev)},
        {offsetof(struct region_layout, vdev), 2 * sizeof(struct region_vdev)},
        {offsetof(struct region_layout, refusal_count), 256},
        {offsetof(struct region_layout, slot), 4 * sizeof(struct region_slot)},
        {offsetof(struct region_layout, slot), 64},
        {offsetof(struct region_layout, shares_high), 8},
        {offsetof(struct region_layout, share), 2 * sizeof(struct region_share)},
        {offsetof(struct region_layout, groups_high), 8},
        {offsetof(struct region_layout, group), 3 * sizeof(struct region_group)},
        {offsetof(struct region_layout, steal), sizeof(struct region_steal)},
        {0, sizeof(struct region_layout)},
    };
    /* clang-format on */
    uint64_t part = random() % (sizeof(parts) / sizeof(parts[0]));

    return (uint32_t)(parts[part].at + random() % parts[part].bytes / 4 * 4);
}

size_t fuzz_make(uint64_t i, uint8_t *input, size_t size, uint64_t (*random)(void))
{
    static const uint64_t values[] = {
        0,          1,          2, 3, 64, 255, 0x7fffffff, 0xffffffff, 1ULL << 47, (1ULL << 48) - 1,
        1ULL << 63, UINT64_MAX,
    };

    (void)i;
    size = 0;
    for (uint64_t count = 1 + random() % 8; count; count--) {
        uint64_t value =
            random() % 4 ? values[random() % (sizeof(values) / sizeof(values[0]))] : random();
        uint32_t place = random_place(random);

        memcpy(input + size, &place, sizeof(place));
        input[size + 4] = random() & 1 ? 4 : 8;
        memcpy(input + size + 5, &value, sizeof(value));
        size += 5u + input[size + 4];
    }
    return size;
}

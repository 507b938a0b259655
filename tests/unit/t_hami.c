/* What HAMi's monitor would read from a cache file, by the offsets of its own layout. */
#include "unit.h"

#include "account/hami.h"
#include "account/instance.h"
#include "account/ledger_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#define HEADER_BYTES 2008952
#define PROC(i)      (1856 + 1960 * (size_t)(i))
#define SM_LIMIT(i)  (1728 + 8 * (size_t)(i))
#define SWITCH       2008900
#define RECENT       2008904
#define LAST_KERNEL  2008912

static unsigned char *header;
static struct vgpu_ledger *ledger;

static uint32_t u32(size_t offset)
{
    uint32_t value;

    memcpy(&value, header + offset, sizeof(value));
    return value;
}

static uint64_t u64(size_t offset)
{
    uint64_t value;

    memcpy(&value, header + offset, sizeof(value));
    return value;
}

/* As the monitor writes. */
static void set32(size_t offset, int32_t value)
{
    memcpy(header + offset, &value, sizeof(value));
}

static int setup(void **state)
{
    const char *path = scratch_path("monitor.cache");
    int fd;

    (void)state;
    unlink(path);
    setenv("VGPU_RUNTIME_DIR", scratch_path("runtime"), 1);
    setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", path, 1);
    setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "1024m", 1);
    setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "0m", 1);
    setenv("CUDA_DEVICE_SM_LIMIT", "30", 1);
    setenv("CUDA_DEVICE_SM_LIMIT_2", "0", 1);
    setenv("CUDA_TASK_PRIORITY", "0", 1);
    if (instance_attach(&ledger) != 1)
        return -1;
    fd = open(path, O_RDWR);
    header = mmap(NULL, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return header == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    struct vgpu_region *region = ledger_region(ledger);

    (void)state;
    ledger_free(ledger);
    assert_int_equal(u32(PROC(0) + 1928), 0);
    region_close(region);
    munmap(header, HEADER_BYTES);
    unsetenv("GPU_CORE_UTILIZATION_POLICY");
    unsetenv("CUDA_DEVICE_SM_LIMIT_2");
    return 0;
}

TEST(constants_and_limits, setup, teardown)
{
    struct stat st;

    assert_int_equal(stat(scratch_path("monitor.cache"), &st), 0);
    assert_true(st.st_size >= HEADER_BYTES + 1);
    assert_int_equal(u32(0), 19920718);
    assert_int_equal(u32(4), 1);
    assert_int_equal(u32(8), 2);
    assert_int_equal(u64(1600), GIB);
    assert_int_equal(u64(1608), 0);
    assert_int_equal(u64(SM_LIMIT(0)), 30);
    assert_int_equal(u64(SM_LIMIT(2)), 100);
    assert_int_equal(u64(SM_LIMIT(15)), 30);
    assert_int_equal(u32(SWITCH), 1);
    assert_int_equal(u32(RECENT), 2);
    assert_int_equal(u32(2008908), 0);
    assert_int_equal(u64(56), 0);
    assert_int_equal(ledger_device(ledger, 0, "GPU-12345678-1234-1234-1234-123456789abc", 16 * GIB),
                     0);
    assert_int_equal(ledger_device(ledger, 1, "GPU-22345678-1234-1234-1234-123456789abc", 16 * GIB),
                     0);
    assert_int_equal(u64(56), 2);
    assert_string_equal((const char *)header + 64, "GPU-12345678-1234-1234-1234-123456789abc");
    for (size_t i = 64 + 40; i < 64 + 96; i++)
        assert_int_equal(header[i], 0);
}

static int hold_in_child(void *arg)
{
    atomic_int *ready = arg;

    CHECK(ledger_reserve(ledger, 1, 7 * MIB) == 0);
    CHECK(ledger_commit(ledger, 1, VGPU_KIND_POOL, 7 * MIB, 7 * MIB) == 0);
    atomic_store(ready, 1);
    for (;;)
        nap_ms(1000);
}

TEST(what_processes_hold, setup, teardown)
{
    atomic_int *ready = shared_memory(sizeof(*ready));
    pid_t pid;

    assert_int_equal(u32(2008896), 1);
    assert_int_equal(u32(PROC(0)), getpid());
    assert_int_equal(u32(PROC(0) + 1928), 1);
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 500 * MIB);
    assert_int_equal(ledger_reserve(ledger, 0, 100 * MIB), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, 100 * MIB, 90 * MIB), 0);
    ledger_set(ledger, 0, VGPU_KIND_MODULE, 3 * MIB);
    assert_int_equal(u64(PROC(0) + 8), 500 * MIB);
    assert_int_equal(u64(PROC(0) + 16), 3 * MIB);
    assert_int_equal(u64(PROC(0) + 24), 90 * MIB);
    assert_int_equal(u64(PROC(0) + 40), 593 * MIB);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 90 * MIB);
    assert_int_equal(u64(PROC(0) + 40), 503 * MIB);
    /* A forked child has a slot of its own there, and once it is killed the next refresh removes
     * it. */
    pid = spawn(hold_in_child, ready);
    while (!atomic_load(ready))
        nap_ms(1);
    assert_int_equal(u32(2008896), 2);
    assert_int_equal(u32(PROC(1)), pid);
    assert_int_equal(u32(PROC(1) + 1928), 1);
    assert_int_equal(u64(PROC(1) + 8 + 64 + 32), 7 * MIB);
    kill(pid, SIGKILL);
    finish(pid);
    nap_ms(120);
    ledger_set(ledger, 0, VGPU_KIND_MODULE, 4 * MIB);
    assert_int_equal(u32(PROC(1) + 1928), 0);
    assert_int_equal(u64(PROC(0) + 16), 4 * MIB);
}

TEST(caps_follow_the_region, setup, teardown)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    assert_int_equal(limits.vdev[0].cap_percent, 30);
    limits.vdev[0].cap_percent = 55;
    limits.vdev[1].cap_percent = 0;
    assert_int_equal(region_set_limits(ledger_region(ledger), &limits), 0);
    assert_int_equal(u64(SM_LIMIT(0)), 30);
    hami_launch(ledger, 1000);
    assert_int_equal(u64(SM_LIMIT(0)), 55);
    assert_int_equal(u64(SM_LIMIT(1)), 100);
    limits.vdev[0].cap_percent = 56;
    assert_int_equal(region_set_limits(ledger_region(ledger), &limits), 0);
    /* By memory too, where nothing is launched. */
    nap_ms(120);
    ledger_set(ledger, 0, VGPU_KIND_MODULE, 1 * MIB);
    assert_int_equal(u64(SM_LIMIT(0)), 56);
}

static int setup_interval(void **state)
{
    int rc;

    setenv("RECORD_KERNEL_INTERVAL", "5", 1);
    rc = setup(state);
    unsetenv("RECORD_KERNEL_INTERVAL");
    return rc;
}

/* The time of the last launch is written as often as the variable says; a clock that was set back
 * is believed. */
TEST(launches_recorded_now_and_then, setup_interval, teardown)
{
    hami_launch(ledger, 1700000000);
    hami_launch(ledger, 1700000004);
    assert_int_equal(u64(LAST_KERNEL), 1700000000);
    hami_launch(ledger, 1700000005);
    assert_int_equal(u64(LAST_KERNEL), 1700000005);
    hami_launch(ledger, 1600000000);
    assert_int_equal(u64(LAST_KERNEL), 1600000000);
}

/* Of an instance only the sum is known: the first process that lives stands for it. */
TEST(utilization, setup, teardown)
{
    struct region_compute *compute = &ledger_region(ledger)->layout->vdev[1].compute;
    uint64_t span = clock_ns() / REGION_SPAN_NS;

    for (unsigned i = 0; i < REGION_SPANS; i++)
        store_relaxed(&compute->span_ns[i], i == span % REGION_SPANS ? NS_PER_S / 4 : 0);
    store_relaxed(&compute->span_stamp[span % REGION_SPANS], span);
    hami_refresh(ledger);
    assert_int_equal(u64(PROC(0) + 1160 + 48 + 16), 25);
    assert_int_equal(u64(PROC(0) + 1160 + 16), 0);
    /* More than there is, as of a kernel of many seconds that is counted at its end. */
    store_relaxed(&compute->span_ns[span % REGION_SPANS], 20 * NS_PER_S);
    hami_refresh(ledger);
    assert_int_equal(u64(PROC(0) + 1160 + 48 + 16), 100);
}

TEST(launches, setup, teardown)
{
    /* What the monitor has counted down. */
    set32(RECENT, 0);
    hami_launch(ledger, 1700000000);
    assert_int_equal(u32(RECENT), 2);
    assert_int_equal(u64(LAST_KERNEL), 1700000000);
    set32(RECENT, 1);
    hami_launch(ledger, 1700000001);
    assert_int_equal(u32(RECENT), 2);
    assert_int_equal(u64(LAST_KERNEL), 1700000001);
    assert_false(hami_blocked(ledger, 0));
    /* The word that most launches look at only. */
    assert_int_equal(*hami_word(ledger), HAMI_RECENT);
    set32(RECENT, 1);
    assert_int_equal(*hami_word(ledger), 1);
    hami_launch(ledger, 1700000001);
    assert_int_equal(*hami_word(ledger), HAMI_RECENT);
    /* Launches do not lift what the monitor has forbidden, but show that somebody wants the
     * device. */
    set32(RECENT, -1);
    assert_true(hami_blocked(ledger, 0));
    hami_launch(ledger, 1700000002);
    assert_int_equal((int32_t)u32(RECENT), -1);
    assert_true(hami_blocked(ledger, 0));
    assert_int_not_equal(*hami_word(ledger), HAMI_RECENT);
    assert_int_equal(u64(LAST_KERNEL), 1700000002);
    set32(RECENT, 0);
    assert_false(hami_blocked(ledger, 0));
}

TEST(the_switch, setup, teardown)
{
    assert_false(hami_unlimited(ledger));
    set32(SWITCH, 0);
    assert_true(hami_unlimited(ledger));
    set32(SWITCH, 1);
    assert_false(hami_unlimited(ledger));
}

static int setup_forced(void **state)
{
    setenv("GPU_CORE_UTILIZATION_POLICY", "Force", 1);
    return setup(state);
}

TEST(the_switch_where_caps_are_forced, setup_forced, teardown)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    assert_int_equal(limits.compute.cap_policy, VGPU_CAP_HARD);
    set32(SWITCH, 0);
    assert_false(hami_unlimited(ledger));
    set32(RECENT, -1);
    assert_true(hami_blocked(ledger, 0));
}

/* An instance of `vgpu run` has no header: what would be there is the region itself. */
TEST(instances_without_a_header)
{
    struct vgpu_region *region = new_region("plain", GIB);
    struct vgpu_ledger *plain;
    struct region_layout *before = malloc(sizeof(*before));

    assert_non_null(before);
    assert_int_equal(ledger_new(region, 0, &plain), 0);
    memcpy(before, region->layout, sizeof(*before));
    hami_launch(plain, 1700000000);
    assert_false(hami_blocked(plain, 0));
    assert_false(hami_unlimited(plain));
    assert_int_equal(*hami_word(plain), HAMI_RECENT);
    assert_int_equal(*hami_word(NULL), HAMI_RECENT);
    hami_launch(NULL, 1700000000);
    assert_false(hami_blocked(NULL, 0));
    assert_false(hami_unlimited(NULL));
    assert_memory_equal(before, region->layout, sizeof(*before));
    free(before);
    ledger_free(plain);
    region_close(region);
}

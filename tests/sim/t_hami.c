/* HAMi's variables for compute, and the words that its monitor writes for a running instance. */
#include "tenants.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Of HAMi-core's shared region, version 1.2. */
#define SM_LIMIT           1728
#define UTILIZATION_SWITCH 2008900
#define RECENT_KERNEL      2008904
#define LAST_KERNEL_TIME   2008912

/* The last one has no limit of time at all, only one of memory. */
static const char *const policies[] = {"default", "force", "disable", "none"};

#define COUNT 4 /* one on a device of its own each */

static char *map_cache(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    char *map = mmap(NULL, 2008952, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    close(fd);
    return map;
}

static int32_t get32(const char *cache, size_t offset)
{
    return __atomic_load_n((const int32_t *)(const void *)(cache + offset), __ATOMIC_ACQUIRE);
}

static uint64_t get64(const char *cache, size_t offset)
{
    return __atomic_load_n((const uint64_t *)(const void *)(cache + offset), __ATOMIC_ACQUIRE);
}

static void put32(char *cache, size_t offset, int32_t value)
{
    __atomic_store_n((int32_t *)(void *)(cache + offset), value, __ATOMIC_RELEASE);
}

static void settle_share(struct watch *watch, unsigned who, double least, double most)
{
    double share = watch_share(watch, who);

    printf("%s: %.4f\n", policies[who], share);
    watch_expect(watch, share >= least && share <= most, "%s: %.4f of the device, not %.3f to %.3f",
                 policies[who], share, least, most);
}

static void begin_policies(struct watch *watch, pid_t *pids, char **ret_caches)
{
    char path[4096];

    setenv("CUDA_DEVICE_MEMORY_LIMIT", "4g", 1);
    setenv("CUDA_DEVICE_SM_LIMIT", "30", 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "%s/hami.%d", getenv("TEST_WORK"), i);
        setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", path, 1);
        setenv("GPU_CORE_UTILIZATION_POLICY", policies[i], 1);
        if (i == 3)
            setenv("CUDA_DEVICE_SM_LIMIT", "0", 1);
        watch_add(watch, i, NULL);
        pids[i] = tenant_start(NULL, "load us=1000 secs=600 sync=16 device=%d", i);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        watch_until_busy(watch, i);
        snprintf(path, sizeof path, "%s/hami.%u", getenv("TEST_WORK"), i);
        ret_caches[i] = map_cache(path);
    }
    watch_restart(watch);
}

/* Run without an instance. */
TEST(hami_compute)
{
    struct watch watch = {0};
    char *caches[COUNT];
    pid_t pids[COUNT];

    begin_policies(&watch, pids, caches);
    while (watch_settles(&watch, 400)) {
        settle_share(&watch, 0, 0.20, 0.33);
        settle_share(&watch, 1, 0.20, 0.33);
        settle_share(&watch, 2, 0.60, 1.01);
        settle_share(&watch, 3, 0.60, 1.01);
    }
    uint64_t last_s = get64(caches[0], LAST_KERNEL_TIME);
    CHECK_U(last_s + 60, >, (uint64_t)time(NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_U(get64(caches[i], SM_LIMIT), ==, i == 3 ? 100 : 30);

    /* The monitor lifts the caps, but not where they are forced; and it brings them back. */
    for (int i = 0; i < COUNT; i++)
        put32(caches[i], UTILIZATION_SWITCH, 0);
    while (watch_settles(&watch, 300)) {
        settle_share(&watch, 0, 0.60, 1.01);
        settle_share(&watch, 1, 0.18, 0.34);
    }
    for (int i = 0; i < COUNT; i++)
        put32(caches[i], UTILIZATION_SWITCH, 1);

    /* It counts down, and a launch sets it again; it holds launches back, and lets them go. */
    put32(caches[0], RECENT_KERNEL, 1);
    for (int i = 1; i < COUNT; i++)
        put32(caches[i], RECENT_KERNEL, -1);
    while (watch_settles(&watch, 300)) {
        watch_expect(&watch, get32(caches[0], RECENT_KERNEL) == 2, "a launch does not show");
        settle_share(&watch, 0, 0.18, 0.34);
        for (unsigned i = 1; i < COUNT; i++)
            settle_share(&watch, i, 0, 0);
    }
    for (unsigned i = 1; i < COUNT; i++) {
        CHECK(get32(caches[i], RECENT_KERNEL) == -1);
        put32(caches[i], RECENT_KERNEL, 0);
    }
    while (watch_settles(&watch, 300)) {
        settle_share(&watch, 1, 0.18, 0.34);
        settle_share(&watch, 2, 0.60, 1.01);
        settle_share(&watch, 3, 0.60, 1.01);
        for (int i = 0; i < COUNT; i++)
            watch_expect(&watch, get32(caches[i], RECENT_KERNEL) == 2, "a launch does not show");
    }
    CHECK_U(get64(caches[0], LAST_KERNEL_TIME), >, last_s);
    for (int i = 0; i < COUNT; i++)
        tenant_end(pids[i]);
    watch_done(&watch);
    return 0;
}

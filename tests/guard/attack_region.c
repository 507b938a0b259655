/*
 * The program writes to its instance's region, which is a file of its user. The guard must read no
 * limit from it.
 *
 *   attack_region cap | card | vdevs | numbers | truncated | arena
 *
 * It expects a cap of 10 percent for cap, truncated and arena; GPU 0 alone of two for card; 1 GiB
 * of GPU 0 and 2 GiB of GPU 1 for numbers.
 */
#include "attack.h"

#include "region/layout.h"

#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORK_NS 1000000U

static const char *region_path(void)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/region", getenv("VGPU_INSTANCE"));
    return path;
}

/* There is one once there is a channel. */
static const char *arena_path(void)
{
    static char pattern[512];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/vgpu-GPU-*", getenv("VGPU_ARENA_DIR"));
    CHECK_EQUAL(glob(pattern, 0, NULL, &found), 0);
    CHECK_EQUAL(found.gl_pathc, 1);
    snprintf(pattern, sizeof(pattern), "%s", found.gl_pathv[0]);
    globfree(&found);
    return pattern;
}

static struct region_layout *map_region(void)
{
    struct region_layout *region;
    int fd = open(region_path(), O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(region != MAP_FAILED);
    close(fd);
    return region;
}

static void begin_work(struct rmclient *client)
{
    uint32_t group, channel;

    attack_open(client);
    CHECK_EQUAL(rmclient_compute(client, 1, &group, &channel), 0);
    CHECK_EQUAL(rmclient_submit(client, channel, WORK_NS, 1000000), 0);
}

static void attack_cap(void)
{
    struct region_layout *region = map_region();
    struct rmclient client;

    begin_work(&client);
    CHECK_EQUAL(region->vdev[0].cap_percent, 10);
    atomic_store(&region->vdev[0].cap_percent, 0);
    region->vdev[0].limit.cap_percent = 0;
    region->compute.cap_policy = VGPU_CAP_OFF;
    region->compute.weight = VGPU_WEIGHT_MAX;
    region->compute.priority = VGPU_PRIORITY_MAX;
    attack_check_capped(&client);
    rmclient_close(&client);
}

static void attack_card(void)
{
    struct region_layout *region = map_region();
    struct rmclient client;
    uint32_t memory = 0;

    CHECK_EQUAL(region->device_count, 1);
    CHECK_EQUAL(rmclient_open(NULL, 1, &client), 0);
    region->device_count = 0;
    CHECK(attack_alloc(&client, MIB, &memory) != 0);
    CHECK_EQUAL(book(&client, 1).gpu_used, 0);
    rmclient_close(&client);
}

/* The card is another vdev's, again and again, so that it would have books of its own each time. */
static void attack_vdevs(void)
{
    struct region_layout *region = map_region();
    char uuid[VGPU_UUID_LEN] = "";

    for (unsigned i = 0; i < VGPU_DEVICES_MAX - 1; i++) {
        struct rmclient client; /* a new one each time, for what is known of a device stays */
        uint32_t memory = 0;

        attack_open(&client);
        while (attack_alloc(&client, 64 * MIB, &memory) == 0)
            memory = 0;
        CHECK_EQUAL(book(&client, 0).gpu_used, attack_quota());
        if (i == 0)
            memcpy(uuid, region->vdev[0].limit.uuid, sizeof(uuid));
        CHECK(uuid[0]);
        memset(region->vdev[i].limit.uuid, 0, sizeof(uuid));
        memcpy(region->vdev[i + 1].limit.uuid, uuid, sizeof(uuid));
        region->vdev[i + 1].quota_bytes = 4 * GIB;
    }
}

/* Quotas are of the cards that had those numbers at the start, whichever is used first. */
static void attack_numbers(void)
{
    for (unsigned gpu = 2; gpu-- > 0;) {
        struct rmclient client;
        uint32_t memory = 0;

        CHECK_EQUAL(rmclient_open(NULL, gpu, &client), 0);
        while (attack_alloc(&client, 64 * MIB, &memory) == 0)
            memory = 0;
        CHECK_EQUAL(book(&client, gpu).gpu_used, (gpu + 1) * GIB);
    }
}

/* Its supervisor lives on, and holds what it held. */
static void attack_truncated(const char *(*path_of)(void))
{
    struct rmclient client;
    pid_t supervisor = getppid();
    uint32_t memory;

    begin_work(&client);
    memory = attack_must_alloc(&client, MIB);
    attack_check_capped(&client);
    CHECK_EQUAL(truncate(path_of(), 0), 0);
    attack_must_free(&client, memory);
    attack_check_room(&client);
    attack_check_capped(&client);
    CHECK_EQUAL(getppid(), supervisor);
    memory = attack_must_alloc(&client, MIB);
    attack_must_free(&client, memory);
    rmclient_close(&client);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "cap") == 0)
        attack_cap();
    else if (strcmp(what, "card") == 0)
        attack_card();
    else if (strcmp(what, "vdevs") == 0)
        attack_vdevs();
    else if (strcmp(what, "numbers") == 0)
        attack_numbers();
    else if (strcmp(what, "truncated") == 0)
        attack_truncated(region_path);
    else if (strcmp(what, "arena") == 0)
        attack_truncated(arena_path);
    else
        return 2;
    return 0;
}

/* Making and opening regions: races, bad files, bad places, limits. */
#include "unit.h"

#include "account/hami.h"
#include "region/internal.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct race {
    const char *path;
    const struct foreign_format *format;
    atomic_int go, created, failed;
};

static int create_when_told(void *arg)
{
    struct race *race = arg;
    struct vgpu_limits limits = {.name = "race"};
    struct vgpu_region *region;
    bool created = false;

    limits.vdev[0].quota_bytes = 5 * GIB;
    while (!atomic_load(&race->go))
        sched_yield();
    if (region_create(race->path, race->format, &limits, &region, &created) != 0) {
        atomic_fetch_add(&race->failed, 1);
        return 1;
    }
    atomic_fetch_add(&race->created, created);
    region_limits(region, &limits);
    CHECK(limits.vdev[0].quota_bytes == 5 * GIB && strcmp(limits.name, "race") == 0);
    return 0;
}

static void run_race(const char *path, const struct foreign_format *format, int starters)
{
    struct race *race = shared_memory(sizeof(*race));
    pid_t pids[64];

    race->path = path;
    race->format = format;
    for (int i = 0; i < starters; i++)
        pids[i] = spawn(create_when_told, race);
    atomic_store(&race->go, 1);
    for (int i = 0; i < starters; i++)
        assert_int_equal(finish(pids[i]), 0);
    assert_int_equal(race->failed, 0);
    assert_int_equal(race->created, 1);
    munmap(race, sizeof(*race));
}

TEST(create_race)
{
    for (int round = 0; round < 10; round++) {
        unlink(scratch_path("race"));
        run_race(scratch_path("race"), NULL, 24);
    }
}

/* The cache file may be there already, with what HAMi keeps in it, and must keep that. */
TEST(create_race_in_cache_file)
{
    const char *path = scratch_path("race.cache");
    char header[64] = "\x4e\xf7\x2f\x01 HAMi's magic and more", found[64] = "";
    struct stat st;
    int fd;

    for (int round = 0; round < 5; round++) {
        unlink(path);
        if (round % 2) {
            fd = open(path, O_RDWR | O_CREAT, 0666);
            assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
            assert_int_equal(ftruncate(fd, 2008953), 0);
            close(fd);
        }
        run_race(path, &hami_cache, 24);
        if (round % 2) {
            fd = open(path, O_RDONLY);
            assert_int_equal(pread(fd, found, sizeof(found), 0), sizeof(found));
            assert_memory_equal(found, header, sizeof(header));
            close(fd);
        }
        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_size >= 2008953);
        if (!(round % 2))
            assert_int_equal(st.st_mode & 0777, 0666);
    }
}

TEST(modes_ignore_umask)
{
    mode_t old = umask(0077);
    struct vgpu_limits limits = {.name = "m"};
    struct vgpu_region *region;
    struct stat st;
    bool created;

    assert_int_equal(region_create(scratch_path("own"), NULL, &limits, &region, &created), 0);
    region_close(region);
    assert_int_equal(region_create(scratch_path("shared"), &hami_cache, &limits, &region, &created),
                     0);
    region_close(region);
    assert_int_equal(umask(old), 0077);
    assert_int_equal(stat(scratch_path("own"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(scratch_path("shared"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
}

static void assert_refused(const char *path, const struct foreign_format *format, int expected)
{
    struct vgpu_limits limits = {.name = "x"};
    struct vgpu_region *region = (void *)1;
    bool created = true;

    assert_int_equal(region_open(path, format ? format->base_offset : 0, &region), expected);
    assert_int_equal(region_create(path, format, &limits, &region, &created), expected);
    assert_ptr_equal(region, (void *)1);
    assert_true(created);
}

static void write_file(const char *path, size_t bytes, int fill)
{
    char *data = malloc(bytes);
    FILE *file = fopen(path, "w");

    memset(data, fill, bytes);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    free(data);
}

TEST(bad_files)
{
    const char *path = scratch_path("bad");
    struct vgpu_region *region;
    struct stat st;

    write_file(path, 0 + 1, 0);
    assert_refused(path, NULL, -EPROTO);
    write_file(path, sizeof(struct region_layout), 0x5a);
    assert_refused(path, NULL, -EPROTO);
    write_file(path, sizeof(struct region_layout), 0);
    assert_refused(path, NULL, -EPROTO);
    /* A file that is nobody's cache: refused, and left as it is. */
    write_file(path, 1000, 'x');
    assert_refused(path, &hami_cache, -EPROTO);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 1000);
    /* A cache file whose rest is somebody else's. */
    write_file(path, (size_t)hami_cache.base_offset + sizeof(struct region_layout), 0x5a);
    assert_refused(path, &hami_cache, -EPROTO);
    unlink(path);
    region_close(new_region("bad", GIB));
    assert_int_equal(truncate(path, sizeof(struct region_layout) - 1), 0);
    assert_refused(path, NULL, -EPROTO);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(path, NULL, -EISDIR);
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, NULL, -EPROTO);
    unlink(path);
    region_close(new_region("target", GIB));
    assert_int_equal(symlink(scratch_path("target"), path), 0);
    assert_refused(path, NULL, -ELOOP);
    unlink(path);
    assert_refused(scratch_path("nowhere/region"), NULL, -ENOENT);
    assert_int_equal(region_open(scratch_path("absent"), 0, &region), -ENOENT);
    assert_int_equal(region_open(scratch_path("target"), -64, &region), -EINVAL);
}

TEST(other_version)
{
    struct vgpu_region *region = new_region("version", GIB);

    region->layout->version++;
    assert_refused(scratch_path("version"), 0, -EPROTO);
    region->layout->version--;
    region->layout->layout_bytes -= 8;
    assert_refused(scratch_path("version"), 0, -EPROTO);
    region_close(region);
}

/* A region of an older version in a cache file is made anew, once nobody uses it. */
TEST(older_version_in_cache_file)
{
    struct vgpu_limits old = {.name = "old"}, new = {.name = "new"}, has;
    const char *path = scratch_path("older");
    struct vgpu_region *region, *again;
    bool created;
    char byte;
    int ready[2];
    pid_t user;

    assert_int_equal(region_create(path, &hami_cache, &old, &region, &created), 0);
    assert_int_equal(pipe(ready), 0);
    user = fork();
    if (user == 0) {
        byte = liveness_claim(region->liveness, 1) == 0;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(byte);
    region->layout->version--;
    region->layout->slot[3].pid = 77;
    assert_refused(path, &hami_cache, -EPROTO);
    kill(user, SIGKILL);
    waitpid(user, NULL, 0);
    assert_int_equal(region_create(path, &hami_cache, &new, &again, &created), 0);
    assert_true(created);
    region_limits(again, &has);
    assert_string_equal(has.name, "new");
    assert_int_equal(again->layout->slot[3].pid, 0);
    region_close(again);
    region_close(region);
    close(ready[0]);
    close(ready[1]);
}

/* On a file system of its own: read-only, full, and another user's. */
static int try_places(void *arg)
{
    struct vgpu_limits limits = {.name = "p"};
    const char *place = scratch_path("place"), *file = scratch_path("place/region");
    struct vgpu_region *region;
    bool created;
    char filler[4096] = {1};
    int fd;

    (void)arg;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 77;
    CHECK(mkdir(place, 0755) == 0);
    CHECK(mount("vgpu-test", place, "tmpfs", 0, "size=4m") == 0);
    CHECK(region_create(file, NULL, &limits, &region, &created) == 0);
    region_close(region);
    CHECK(setegid(64123) == 0 && seteuid(64123) == 0);
    CHECK(region_open(file, 0, &region) == -EACCES);
    CHECK(seteuid(0) == 0 && setegid(0) == 0);
    CHECK(mount("vgpu-test", place, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(region_open(file, 0, &region) == -EROFS);
    CHECK(region_create(scratch_path("place/other"), NULL, &limits, &region, &created) == -EROFS);
    CHECK(mount("vgpu-test", place, "tmpfs", MS_REMOUNT, "size=4m") == 0);
    fd = open(scratch_path("place/filler"), O_WRONLY | O_CREAT, 0600);
    while (write(fd, filler, sizeof(filler)) > 0)
        ;
    close(fd);
    CHECK(region_create(scratch_path("place/other"), NULL, &limits, &region, &created) == -ENOSPC);
    CHECK(region_create(scratch_path("place/c.cache"), &hami_cache, &limits, &region, &created) ==
          -ENOSPC);
    /* Nothing half-made is left. */
    CHECK(access(scratch_path("place/other"), F_OK) < 0 &&
          access(scratch_path("place/c.cache"), F_OK) < 0);
    return 0;
}

ROOT_TEST(bad_places)
{
    int status;

    status = finish(spawn(try_places, NULL));
    if (status == 77)
        SKIP("the right to mount a tmpfs");
    assert_int_equal(status, 0);
}

/* Somebody who may open the folder holds its lock for ever: creation goes on without it after a
 * while. */
TEST(folder_lock_held)
{
    int fd = open(scratch(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct vgpu_limits limits = {.name = "h"};
    uint64_t start_ns = clock_ns();
    struct vgpu_region *region;
    bool created = false;

    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(region_create(scratch_path("held"), NULL, &limits, &region, &created), 0);
    assert_true(created);
    assert_true(clock_ns() - start_ns < PATIENCE_NS);
    region_close(region);
    close(fd);
}

TEST(limits_kept_and_adopted)
{
    struct vgpu_region *region = new_region("limits", 4 * GIB), *again;
    struct vgpu_limits limits = {.name = "other"}, found;
    struct vgpu_ledger *ledger;
    bool created = true;

    limits.vdev[0].quota_bytes = GIB;
    assert_int_equal(region_create(scratch_path("limits"), NULL, &limits, &again, &created), 0);
    assert_false(created);
    region_limits(again, &found);
    assert_int_equal(found.vdev[0].quota_bytes, 4 * GIB);
    assert_string_equal(found.name, "unit");
    /* In use: the old ones stand; the same ones are no difference. */
    assert_int_equal(ledger_new(region, 0, &ledger), 0);
    assert_true(region_in_use(again));
    assert_int_equal(region_adopt_limits(again, &limits), -EBUSY);
    assert_int_equal(region_adopt_limits(again, &found), 0);
    ledger_free(ledger);
    assert_false(region_in_use(again));
    assert_int_equal(region_adopt_limits(again, &limits), 0);
    region_limits(region, &found);
    assert_int_equal(found.vdev[0].quota_bytes, GIB);
    region_close(again);
    region_close(region);
}

/* Who came first without limits has not taken them from those who come with some. */
TEST(limits_after_nobody_gave_any)
{
    struct vgpu_region *region = new_region("nolimits", 0);
    struct vgpu_limits limits = {.name = ""}, found;
    struct vgpu_ledger *ledger;

    limits.vdev[0].quota_bytes = GIB;
    assert_int_equal(ledger_new(region, 0, &ledger), 0);
    assert_int_equal(ledger_quota(ledger, 0), 0);
    assert_int_equal(region_adopt_limits(region, &limits), 0);
    region_limits(region, &found);
    assert_int_equal(found.vdev[0].quota_bytes, GIB);
    assert_int_equal(ledger_quota(ledger, 0), GIB);
    ledger_free(ledger);
    region_close(region);
}

/* Only vdevs of devices that exist are compared once it is known which do. */
TEST(limits_of_absent_devices)
{
    struct vgpu_region *region = new_region("absent-devices", 4 * GIB);
    struct vgpu_limits limits;
    struct vgpu_ledger *ledger;

    assert_int_equal(ledger_new(region, 0, &ledger), 0);
    region_limits(region, &limits);
    limits.vdev[15].quota_bytes = GIB;
    assert_int_equal(region_adopt_limits(region, &limits), -EBUSY);
    assert_int_equal(ledger_device(ledger, 0, "GPU-0", 8 * GIB), 0);
    assert_int_equal(region_adopt_limits(region, &limits), 0);
    limits.vdev[0].quota_bytes = 5 * GIB;
    assert_int_equal(region_adopt_limits(region, &limits), -EBUSY);
    ledger_free(ledger);
    region_close(region);
}

/* Every field random, header kept: numbers may be wrong, nothing may crash or hang. */
TEST(garbage_inside)
{
    struct vgpu_region *region = new_region("garbage", GIB);
    struct vgpu_ledger *ledger = NULL;
    struct vgpu_snapshot snapshot;
    struct vgpu_proc_memory procs[4];
    unsigned seed = 7;

    for (int round = 0; round < 30; round++) {
        unsigned char *bytes = (unsigned char *)region->layout;
        uint64_t total, available, start_ns;

        for (size_t i = offsetof(struct region_layout, lock); i < sizeof(struct region_layout); i++)
            bytes[i] = (unsigned char)rand_r(&seed);
        start_ns = clock_ns();
        if (ledger_new(region, 0, &ledger) == 0) {
            ledger_reserve(ledger, 0, MIB);
            ledger_view(ledger, 0, GIB, GIB, &total, &available);
            assert_true(total <= GIB && available <= total);
            ledger_processes(ledger, 0, procs, 4);
            ledger_free(ledger);
        }
        if (region_snapshot(region, &snapshot) == 0) {
            assert_true(snapshot.proc_count <= VGPU_PROCS_MAX &&
                        snapshot.refusal_count <= VGPU_REFUSALS);
            assert_true(snapshot.limits.device_count <= VGPU_DEVICES_MAX);
            assert_int_equal(snapshot.limits.name[VGPU_NAME_LEN - 1], '\0');
            snapshot_done(&snapshot);
        }
        assert_true(clock_ns() - start_ns < PATIENCE_NS);
    }
    region_close(region);
}

/* A user of a cache file, until it is told to end. */
struct user {
    const char *path;
    uint64_t quota_bytes; /* that it brings along */
    int ready[2], ends[2];
};

static int use_cache_file(void *arg)
{
    struct user *user = arg;
    struct vgpu_limits limits = {.vdev[0].quota_bytes = user->quota_bytes};
    struct vgpu_region *region;
    struct vgpu_ledger *ledger;
    bool created;
    char byte = 0;

    close(user->ends[1]);
    CHECK(region_create(user->path, &hami_cache, &limits, &region, &created) == 0);
    CHECK(ledger_new(region, 0, &ledger) == 0);
    CHECK(ledger_reserve(ledger, 0, 60 * MIB) == 0);
    CHECK(write(user->ready[1], &byte, 1) == 1);
    return read(user->ends[0], &byte, 1) != 0;
}

static pid_t start_user(struct user *user)
{
    char byte;
    pid_t pid;

    assert_true(pipe(user->ready) == 0 && pipe(user->ends) == 0);
    pid = spawn(use_cache_file, user);
    assert_int_equal(read(user->ready[0], &byte, 1), 1);
    return pid;
}

static void end_user(struct user *user, pid_t pid)
{
    close(user->ends[1]);
    assert_int_equal(finish(pid), 0);
}

/* What is reserved of the region that a newcomer gets. */
static uint64_t reserved_for_newcomer(const char *path)
{
    struct vgpu_limits limits = {.vdev[0].quota_bytes = 100 * MIB};
    struct vgpu_region *region;
    uint64_t bytes;
    bool created;

    assert_int_equal(region_create(path, &hami_cache, &limits, &region, &created), 0);
    bytes = slots_used(region->layout, 0);
    region_close(region);
    return bytes;
}

static ino_t inode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Removed or replaced by a cleaner while processes use it: who comes now shares their quota. */
TEST(cache_file_removed)
{
    struct user user = {.path = scratch_path("removed.cache"), .quota_bytes = 100 * MIB};
    const char *second = scratch_path(".removed.cache.vgpu");
    pid_t pid = start_user(&user);
    ino_t inode = inode_of(user.path);

    assert_int_equal(inode_of(second), inode);
    unlink(user.path);
    assert_int_equal(reserved_for_newcomer(user.path), 60 * MIB);
    assert_int_equal(inode_of(user.path), inode);
    unlink(user.path);
    close(open(user.path, O_WRONLY | O_CREAT, 0666));
    assert_int_equal(reserved_for_newcomer(user.path), 60 * MIB);
    assert_int_equal(inode_of(user.path), inode);
    unlink(second);
    assert_int_equal(reserved_for_newcomer(user.path), 60 * MIB);
    assert_int_equal(inode_of(second), inode);
    end_user(&user, pid);
    /* Nobody uses it any more: a removed file stays removed, limits and all. */
    unlink(user.path);
    assert_int_equal(reserved_for_newcomer(user.path), 0);
    assert_int_not_equal(inode_of(user.path), inode);
    assert_int_equal(inode_of(second), inode_of(user.path));
}

/* With one of its names it can still be found; without any, nobody can join who uses it. */
TEST(cache_file_without_names)
{
    const char *path = scratch_path("nameless.cache"),
               *second = scratch_path(".nameless.cache.vgpu");
    struct vgpu_limits limits = {.vdev[0].quota_bytes = 100 * MIB};
    struct vgpu_region *region;
    bool created;

    assert_int_equal(region_create(path, &hami_cache, &limits, &region, &created), 0);
    assert_null(region_unlinked(region));
    unlink(path);
    assert_null(region_unlinked(region));
    unlink(second);
    assert_string_equal(region_unlinked(region), path);
    assert_int_equal(reserved_for_newcomer(path), 0);
    assert_string_equal(region_unlinked(region), path);
    region_close(region);
}

static const struct {
    size_t offset, bytes;
    const char *damage;
} nonsense[] = {
    {offsetof(struct region_layout, name), VGPU_NAME_LEN, "its name"},
    {offsetof(struct region_layout, device_count), 4, "its number of devices"},
    {offsetof(struct region_layout, vdev[2].limit.uuid), VGPU_UUID_LEN, "its devices"},
    {offsetof(struct region_layout, vdev[15].limit.quota_percent), 4, "its limits"},
    {offsetof(struct region_layout, vdev[0].limit.cap_percent), 4, "its limits"},
    {offsetof(struct region_layout, compute.priority), 4, "its settings of compute"},
    {offsetof(struct region_layout, tier), 4, "its tier"},
};

TEST(damaged_limits)
{
    struct vgpu_limits limits = {
        .name = "name", .device_count = 2, .compute = {.weight = 7}, .tier = VGPU_TIER_GUARD};
    struct vgpu_region *region;
    bool created;

    for (unsigned i = 0; i < VGPU_VDEVS; i++)
        limits.vdev[i] = (struct vgpu_limit){.quota_percent = 50, .cap_percent = 99};
    strcpy(limits.vdev[0].uuid, "GPU-first");
    strcpy(limits.vdev[1].uuid, "MIG-second");
    assert_int_equal(region_create(scratch_path("damaged"), NULL, &limits, &region, &created), 0);
    assert_null(region_damage(region));
    for (unsigned i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
        static const int fills[] = {'A', 0xa5, 0xff};
        unsigned char *at = (unsigned char *)region->layout + nonsense[i].offset,
                      before[VGPU_UUID_LEN + VGPU_NAME_LEN];

        memcpy(before, at, nonsense[i].bytes);
        for (unsigned n = 0; n < sizeof(fills) / sizeof(*fills); n++) {
            memset(at, fills[n], nonsense[i].bytes);
            assert_non_null(region_damage(region));
            assert_string_equal(region_damage(region), nonsense[i].damage);
        }
        memcpy(at, before, nonsense[i].bytes);
        assert_null(region_damage(region));
    }
    /* A device that is selected has a name, and behind a name there is nothing. */
    region->layout->device_count = 3;
    assert_string_equal(region_damage(region), "its devices");
    region->layout->device_count = 2;
    region->layout->name[VGPU_NAME_LEN - 1] = 'x';
    assert_string_equal(region_damage(region), "its name");
    assert_int_equal(region_set_limits(region, &limits), 0);
    assert_null(region_damage(region));
    region_close(region);
}

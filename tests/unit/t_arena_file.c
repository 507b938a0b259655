/* The arena's file: its owner, which users share it, and what happens to a damaged one. */
#include "unit.h"

#include "sched/sched_client.h"
#include "sched/arena_list.h"
#include "sched/arena_file.h"
#include "region/liveness.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NOBODY 65534u

static char folder[PATH_MAX]; /* $VGPU_ARENA_DIR */

static int in_folder(const char *name, mode_t mode)
{
    snprintf(folder, sizeof(folder), "%s/%s", scratch(), name);
    if (mkdir(folder, 0700) < 0 || chmod(folder, mode) < 0)
        return -1;
    return setenv("VGPU_ARENA_DIR", folder, 1);
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/vgpu-%s", folder, name);
    return path;
}

static struct stat stat_of(const char *name)
{
    struct stat st = {.st_ino = 0};

    assert_int_equal(lstat(path_of(name), &st), 0);
    return st;
}

static void put_file(const char *name, off_t bytes, mode_t mode)
{
    int fd = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    close(fd);
}

/* Opens, and has a page until it is closed. */
static int try_open(const char *uuid)
{
    struct vgpu_arena *arena;
    int rc = arena_open(uuid, true, &arena);

    if (rc == 0)
        arena_close(arena);
    return rc;
}

/* Too short, too long, of the right size and empty, garbage, open to others: made anew, under the
 * same name. */
TEST(damaged)
{
    static const struct {
        off_t bytes;
        mode_t mode;
    } cases[] = {
        {0, 0600}, {100, 0600}, {8 << 20, 0600}, {sizeof(struct arena_layout), 0600}, {0, 0666}};
    struct stat before, after;

    assert_int_equal(in_folder("damaged", 0700), 0);
    assert_int_equal(arena_check("GPU-x"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unlink(path_of("GPU-x"));
        put_file("GPU-x", cases[i].bytes, cases[i].mode);
        before = stat_of("GPU-x");
        assert_int_equal(arena_check("GPU-x"), ARENA_BROKEN);
        assert_int_equal(try_open("GPU-x"), 0);
        after = stat_of("GPU-x");
        assert_int_not_equal(before.st_ino, after.st_ino);
        assert_int_equal(after.st_mode & 07777, 0600);
        assert_int_equal(arena_check("GPU-x"), 0);
        assert_int_equal(try_open("GPU-x"), 0);
        assert_int_equal(stat_of("GPU-x").st_ino, after.st_ino); /* and kept */
    }
    assert_int_equal(chmod(path_of("GPU-x"), 0622), 0);
    assert_int_equal(arena_check("GPU-x"), ARENA_BROKEN);
    assert_int_equal(try_open("GPU-x"), 0);
    assert_int_equal(stat_of("GPU-x").st_mode & 07777, 0600);
}

/* Things that are no files are not ours to remove, and are neither opened for good nor waited
 * for. */
TEST(no_file)
{
    assert_int_equal(in_folder("none", 0700), 0);
    assert_int_equal(mkdir(path_of("GPU-folder"), 0700), 0);
    assert_true(try_open("GPU-folder") < 0 && arena_check("GPU-folder") < 0);
    assert_int_equal(mkfifo(path_of("GPU-pipe"), 0600), 0);
    assert_int_equal(try_open("GPU-pipe"), -EPROTO);
    assert_int_equal(arena_check("GPU-pipe"), -EPROTO);
    assert_int_equal(symlink("/dev/zero", path_of("GPU-link")), 0);
    assert_int_equal(try_open("GPU-link"), -ELOOP);
    assert_int_equal(arena_check("GPU-link"), -ELOOP);
    assert_int_equal(try_open("../GPU-up"), -EINVAL);
    assert_int_equal(try_open(""), -EINVAL);
    setenv("VGPU_ARENA_DIR", "/nonexistent", 1);
    assert_int_equal(try_open("GPU-none"), -ENOENT);
    assert_int_equal(arena_check("GPU-none"), -ENOENT);
    setenv("VGPU_ARENA_DIR", "/proc/self/exe", 1);
    assert_int_equal(try_open("GPU-none"), -ENOTDIR);
}

struct party {
    atomic_uint starts; /* nobody opens before there are so many */
    atomic_uint there;
    atomic_uint goes;
    atomic_uint pages[ARENA_PAGES];
};

static int has_page(void *arg)
{
    struct party *party = arg;
    struct vgpu_arena *arena;
    unsigned page;

    atomic_fetch_sub(&party->starts, 1);
    while (atomic_load(&party->starts) > 0)
        sched_yield();
    CHECK(arena_open("GPU-x", true, &arena) == 0);
    CHECK(arena_claim(arena, &page) == 0);
    atomic_fetch_add(&party->pages[page], 1);
    atomic_fetch_add(&party->there, 1);
    while (!atomic_load(&party->goes))
        nap_ms(1);
    CHECK(arena_holds(arena, page));
    return 0;
}

/* One of another version is left to those who use it, and made anew when they have gone. */
TEST(another_version)
{
    struct party *party = shared_memory(sizeof(*party));
    struct vgpu_arena *arena;
    struct stat before;
    pid_t pid;

    assert_int_equal(in_folder("version", 0700), 0);
    atomic_store(&party->starts, 1);
    pid = spawn(has_page, party);
    while (!atomic_load(&party->there))
        nap_ms(1);
    assert_int_equal(arena_open("GPU-x", false, &arena), 0);
    before = stat_of("GPU-x");
    arena->layout->version++;
    assert_int_equal(try_open("GPU-x"), -EPROTO);
    assert_int_equal(arena_check("GPU-x"), -EPROTO);
    assert_int_equal(stat_of("GPU-x").st_ino, before.st_ino);
    arena_close(arena);
    atomic_store(&party->goes, 1);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(arena_check("GPU-x"), ARENA_BROKEN);
    assert_int_equal(arena_open("GPU-x", false, &arena), -EPROTO);
    assert_int_equal(try_open("GPU-x"), 0);
    assert_int_not_equal(stat_of("GPU-x").st_ino, before.st_ino);
}

#define CROWD 24

/* Whoever comes to a broken file at the same time meets in one new file: each has a page of its
 * own. */
TEST(made_anew_once)
{
    struct party *party = shared_memory(sizeof(*party));
    pid_t pids[CROWD];

    assert_int_equal(in_folder("once", 0700), 0);
    for (unsigned round = 0; round < 30; round++) {
        memset(party, 0, sizeof(*party));
        atomic_store(&party->starts, CROWD);
        put_file("GPU-x", round % 2 ? 0 : 4096, 0600);
        for (unsigned i = 0; i < CROWD; i++)
            pids[i] = spawn(has_page, party);
        while (atomic_load(&party->there) < CROWD)
            nap_ms(1);
        atomic_store(&party->goes, 1);
        for (unsigned i = 0; i < CROWD; i++)
            assert_int_equal(finish(pids[i]), 0);
        for (unsigned i = 0; i < CROWD; i++)
            assert_int_equal(atomic_load(&party->pages[i]), 1);
    }
}

/* Where everybody may make files, the name says whose it is. */
TEST(own_names)
{
    char name[64];

    assert_int_equal(in_folder("common", 01777), 0);
    assert_int_equal(try_open("GPU-x"), 0);
    snprintf(name, sizeof(name), "%u-GPU-x", (unsigned)geteuid());
    assert_int_equal(stat_of(name).st_mode & 07777, 0600);
    assert_int_equal(access(path_of("GPU-x"), F_OK), -1);
}

static int takes_part(void *arg)
{
    struct party *party = arg;
    struct sched_identity self = {.id = 7, .weight = 300, .priority = 2, .name = "seven"};
    struct vgpu_arena *arena;
    struct sched_client client;

    CHECK(arena_open("GPU-x", true, &arena) == 0 && sched_client_join(arena, &self, &client) == 0);
    sched_client_resume(&client, clock_ns());
    atomic_fetch_add(&party->there, 1);
    while (!atomic_load(&party->goes))
        nap_ms(1);
    return 0;
}

/* Who takes turns is seen from outside, with what it may be; not who is gone, nor what is
 * nonsense. */
TEST(view)
{
    struct party *party = shared_memory(sizeof(*party));
    struct vgpu_arena *arena;
    struct arena_view view;
    pid_t pids[2];
    int fd;

    assert_int_equal(in_folder("view", 0700), 0);
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_int_equal(view.count, 0);
    for (unsigned i = 0; i < 2; i++)
        pids[i] = spawn(takes_part, party);
    while (atomic_load(&party->there) < 2)
        nap_ms(1);
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_int_equal(view.count, 1);
    assert_false(view.hidden);
    assert_int_equal(view.member[0].id, 7);
    assert_int_equal(view.member[0].weight, 300);
    assert_int_equal(view.member[0].priority, 2);
    assert_int_equal(view.member[0].processes, 2);
    assert_int_not_equal(view.member[0].state, TENANT_INACTIVE);
    assert_string_equal(view.member[0].name, "seven");
    assert_int_equal(arena_open("GPU-x", false, &arena), 0);
    arena->layout->tenant[0].weight = UINT32_MAX;
    memset(arena->layout->tenant[0].name, 'x', sizeof(arena->layout->tenant[0].name));
    arena->layout->page[1].tenant = 0xffffff;
    arena->layout->pages_high = UINT32_MAX;
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_int_equal(view.count, 1);
    assert_int_equal(view.member[0].weight, VGPU_WEIGHT_MAX);
    assert_int_equal(view.member[0].processes, 1);
    assert_int_equal(strlen(view.member[0].name), VGPU_NAME_LEN - 1);
    arena_close(arena);
    /* Another arena of the device is in use: some cannot be seen. */
    put_file("12345-GPU-x", 0, 0600);
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_false(view.hidden);
    fd = open(path_of("12345-GPU-x"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* as good as a page */
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_true(view.hidden);
    close(fd);
    atomic_store(&party->goes, 1);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(finish(pids[i]), 0);
    assert_int_equal(arena_view("GPU-x", geteuid(), &view), 0);
    assert_int_equal(view.count, 0);
}

/* The rest is about two users: root, and in a child nobody. */

static int become_nobody(void)
{
    gid_t group = NOBODY;

    return setgroups(1, &group) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                   setresuid(NOBODY, NOBODY, NOBODY) < 0
               ? -1
               : 0;
}

static int let_users_in(void **state)
{
    (void)state;
    return chmod(scratch(), 0711);
}

static int makes_roots_file(void *arg)
{
    (void)arg;
    CHECK(become_nobody() == 0);
    put_file("0-GPU-x", 0, 0666);
    return 0;
}

static int is_kept_out(void *arg)
{
    (void)arg;
    CHECK(become_nobody() == 0);
    CHECK(truncate(path_of("0-GPU-x"), 0) < 0 && open(path_of("0-GPU-x"), O_RDONLY) < 0);
    /* One that root has put there by this user's name cannot be replaced, and is not believed. */
    CHECK(arena_check("GPU-x") == -EPERM && try_open("GPU-x") == -EPERM);
    CHECK(try_open("GPU-y") == 0 && arena_check("GPU-y") == 0);
    return 0;
}

ROOT_TEST(two_users_apart, let_users_in)
{
    assert_int_equal(in_folder("apart", 01777), 0);
    assert_int_equal(finish(spawn(makes_roots_file, NULL)), 0);
    assert_int_equal(arena_check("GPU-x"), ARENA_BROKEN);
    assert_int_equal(try_open("GPU-x"), 0);
    assert_int_equal(stat_of("0-GPU-x").st_uid, 0);
    assert_int_equal(stat_of("0-GPU-x").st_mode & 07777, 0600);
    put_file("65534-GPU-x", sizeof(struct arena_layout), 0666);
    assert_int_equal(finish(spawn(is_kept_out, NULL)), 0);
    assert_int_equal(stat_of("65534-GPU-y").st_uid, NOBODY);
    /* A folder of somebody else's: nothing of theirs is used, and nothing of theirs is replaced. */
    assert_int_equal(in_folder("theirs", 0755), 0);
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    put_file("GPU-x", 0, 0600);
    assert_int_equal(chown(path_of("GPU-x"), NOBODY, NOBODY), 0);
    assert_int_equal(arena_check("GPU-x"), -EPERM);
    assert_int_equal(try_open("GPU-x"), -EPERM);
    assert_int_equal(stat_of("GPU-x").st_size, 0);
}

struct pair {
    uint64_t inode;
    unsigned page;
};

static int shares(void *arg)
{
    struct pair *pair = arg;
    struct vgpu_arena *arena;

    CHECK(become_nobody() == 0);
    CHECK(arena_check("GPU-x") == 0);
    CHECK(arena_open("GPU-x", true, &arena) == 0 && arena_claim(arena, &pair->page) == 0);
    return 0;
}

static int is_refused(void *arg)
{
    (void)arg;
    CHECK(become_nobody() == 0);
    CHECK(arena_check("GPU-x") == -EPERM && try_open("GPU-x") == -EPERM);
    CHECK(arena_check("GPU-y") == -EACCES && try_open("GPU-y") == -EACCES);
    return 0;
}

/* Root has set it up: those who may write to the folder share, whoever comes first; and nobody
 * else. */
ROOT_TEST(two_users_together, let_users_in)
{
    static const struct {
        gid_t group;
        mode_t folder, file;
    } cases[] = {
        {NOBODY, 02770, 0660}, {NOBODY, 0770, 0660}, {NOBODY, 03770, 0660}, {0, 0777, 0666}};
    struct pair *pair = shared_memory(sizeof(*pair));

    for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct vgpu_arena *arena;
        char name[16];
        unsigned page;

        snprintf(name, sizeof(name), "group%u", i);
        assert_int_equal(in_folder(name, 0700), 0);
        assert_int_equal(chown(folder, 0, cases[i / 2].group), 0);
        assert_int_equal(chmod(folder, cases[i / 2].folder), 0);
        if (i % 2)
            assert_int_equal(finish(spawn(shares, pair)), 0);
        assert_int_equal(arena_open("GPU-x", true, &arena), 0);
        assert_int_equal(arena_claim(arena, &page), 0);
        assert_int_equal(page, 0);
        assert_int_equal(stat_of("GPU-x").st_mode & 07777, cases[i / 2].file);
        assert_int_equal(stat_of("GPU-x").st_uid, i % 2 ? NOBODY : 0);
        if (cases[i / 2].file == 0660)
            assert_int_equal(stat_of("GPU-x").st_gid, NOBODY);
        assert_int_equal(finish(spawn(shares, pair)), 0);
        assert_int_equal(pair->page, 1);
        arena_release(arena, page);
        arena_close(arena);
    }
    /* In a folder that only root may write to, a user has no arena, and is told why. */
    assert_int_equal(in_folder("closed", 0755), 0);
    assert_int_equal(try_open("GPU-x"), 0);
    assert_int_equal(stat_of("GPU-x").st_mode & 07777, 0600);
    assert_int_equal(finish(spawn(is_refused, NULL)), 0);
}

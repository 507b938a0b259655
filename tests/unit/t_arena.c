/* The arena's pages and its lock. t_arena_file.c tests its file. */
#include "unit.h"

#include "sched/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *path_of(const char *uuid)
{
    static char path[4200];

    snprintf(path, sizeof(path), "%s/vgpu-%s", scratch(), uuid);
    return path;
}

/* Arenas are never closed; they are kept here. */
static struct vgpu_arena *kept[32];
static unsigned kept_count;

static int open_arena(const char *uuid, bool make, struct vgpu_arena **ret_arena)
{
    int rc = arena_open(uuid, make, ret_arena);

    if (rc == 0 && kept_count < sizeof(kept) / sizeof(kept[0]))
        kept[kept_count++] = *ret_arena;
    return rc;
}

static struct vgpu_arena *opened(const char *uuid)
{
    struct vgpu_arena *arena;

    return open_arena(uuid, true, &arena) == 0 ? arena : NULL;
}

static int setup(void **state)
{
    (void)state;
    return setenv("VGPU_ARENA_DIR", scratch(), 1);
}

TEST(made_once, setup)
{
    struct vgpu_arena *arena, *same;
    struct stat st;
    unsigned page, other;
    mode_t mask = umask(077);

    errno = 77;
    assert_int_equal(open_arena("GPU-once", false, &arena), -ENOENT);
    assert_int_equal(open_arena("GPU-once", true, &arena), 0);
    assert_int_equal(open_arena("GPU-once", false, &same), 0);
    assert_int_equal(errno, 77);
    umask(mask);
    assert_int_equal(stat(path_of("GPU-once"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(arena_claim(arena, &page), 0);
    assert_int_equal(arena_claim(same, &other), 0);
    assert_int_equal(page, 0);
    assert_int_equal(other, 1);
    assert_int_equal(arena_pages_high(same), 2);
    arena_release(same, other);
    assert_int_equal(arena_claim(arena, &other), 0);
    assert_int_equal(other, 1);
}

#define MANY (ARENA_PAGES + 44)

struct crowd {
    atomic_uint started, refused, goes;
    atomic_uint taken[ARENA_PAGES];
};

static int one_of_many(void *arg)
{
    struct crowd *crowd = arg;
    struct vgpu_arena *arena = opened("GPU-many");
    unsigned page;
    int rc;

    CHECK(arena);
    rc = arena_claim(arena, &page);
    CHECK(rc == 0 || rc == -EUSERS);
    if (rc == 0)
        CHECK(atomic_fetch_add(&crowd->taken[page], 1) == 0);
    else
        atomic_fetch_add(&crowd->refused, 1);
    atomic_fetch_add(&crowd->started, 1);
    while (!atomic_load(&crowd->goes))
        nap_ms(20);
    return 0;
}

/* More processes than pages: the first get them, each its own; when they have gone, others do. */
TEST(many_processes, setup)
{
    struct crowd *crowd = shared_memory(sizeof(*crowd));
    struct vgpu_arena *arena;
    static pid_t pids[MANY];
    unsigned page;

    for (unsigned i = 0; i < MANY; i++)
        pids[i] = spawn(one_of_many, crowd);
    while (atomic_load(&crowd->started) < MANY)
        nap_ms(5);
    assert_int_equal(atomic_load(&crowd->refused), MANY - ARENA_PAGES);
    arena = opened("GPU-many");
    assert_non_null(arena);
    assert_int_equal(arena_pages_high(arena), ARENA_PAGES);
    assert_true(arena_alive(arena, 7));
    assert_int_equal(arena_claim(arena, &page), -EUSERS);
    atomic_store(&crowd->goes, 1);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(finish(pids[i]), 0);
    assert_false(arena_alive(arena, 7));
    assert_int_equal(arena_claim(arena, &page), 0);
    assert_int_equal(page, 0);
}

static void close_all(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 3; fd < (int)(limit.rlim_cur < 4096 ? limit.rlim_cur : 4096); fd++)
        close(fd);
}

static int claims(void *arg)
{
    struct vgpu_arena *arena = opened("GPU-closed");
    unsigned page;

    CHECK(arena && arena_claim(arena, &page) == 0);
    CHECK(page == *(unsigned *)arg);
    return 0;
}

static int closes(void *arg)
{
    struct vgpu_arena *arena = opened("GPU-closed");
    unsigned page, next = 1, same = 0;

    (void)arg;
    CHECK(arena && arena_claim(arena, &page) == 0 && page == 0);
    CHECK(arena_holds(arena, 0));
    CHECK(finish(spawn(claims, &next)) == 0);
    /* Noticed in time, it is taken back: */
    close_all();
    CHECK(arena_holds(arena, 0));
    CHECK(finish(spawn(claims, &next)) == 0);
    /* too late, it is another's. */
    close_all();
    CHECK(finish(spawn(claims, &same)) == 0);
    CHECK(arena_holds(arena, 0)); /* that one is gone again */
    return 0;
}

static int keeps(void *arg)
{
    struct crowd *crowd = arg;
    struct vgpu_arena *arena = opened("GPU-kept");
    unsigned page;

    CHECK(arena && arena_claim(arena, &page) == 0 && page == 0);
    atomic_fetch_add(&crowd->started, 1);
    while (!atomic_load(&crowd->goes))
        nap_ms(5);
    return 0;
}

static int loses(void *arg)
{
    struct crowd *crowd = arg;
    struct vgpu_arena *arena = opened("GPU-kept");
    unsigned page;
    pid_t pid;

    CHECK(arena && arena_claim(arena, &page) == 0 && page == 0);
    close_all();
    pid = spawn(keeps, crowd);
    while (!atomic_load(&crowd->started))
        nap_ms(1);
    CHECK(!arena_holds(arena, 0));
    CHECK(arena_alive(arena, 0)); /* as any other's */
    atomic_store(&crowd->goes, 1);
    CHECK(finish(pid) == 0);
    return 0;
}

TEST(descriptors_closed, setup)
{
    assert_int_equal(finish(spawn(closes, NULL)), 0);
    assert_int_equal(finish(spawn(loses, shared_memory(sizeof(struct crowd)))), 0);
}

static int child_has_none(void *arg)
{
    struct vgpu_arena *arena = arg;
    unsigned page;

    CHECK(!arena_holds(arena, 0));
    CHECK(arena_claim(arena, &page) == 0 && page == 1);
    return 0;
}

TEST(forked, setup)
{
    struct vgpu_arena *arena = opened("GPU-forked");
    unsigned page;

    assert_non_null(arena);
    assert_int_equal(arena_claim(arena, &page), 0);
    assert_int_equal(page, 0);
    assert_int_equal(finish(spawn(child_has_none, arena)), 0);
    assert_true(arena_holds(arena, 0));
    assert_true(arena_alive(arena, 0));
    assert_false(arena_alive(arena, 1));
}

/* The same memory at two addresses. */
TEST(mapped_again, setup)
{
    struct vgpu_arena *arena = opened("GPU-again");
    struct arena_page *again;
    unsigned page;

    assert_non_null(arena);
    assert_int_equal(arena_claim(arena, &page), 0);
    again = arena_page_again(arena, page);
    assert_non_null(again);
    assert_ptr_not_equal(again, &arena->layout->page[page]);
    atomic_store(&arena->layout->page[page].granted_turn, 12345);
    assert_int_equal(atomic_load(&again->granted_turn), 12345);
    atomic_store(&again->fence_completed[3], 54321);
    assert_int_equal(atomic_load(&arena->layout->page[page].fence_completed[3]), 54321);
    assert_true(arena_holds(arena, page)); /* no descriptor was closed for it */
    /* Not of another file that has taken its name. */
    assert_int_equal(unlink(path_of("GPU-again")), 0);
    assert_null(arena_page_again(arena, page));
    assert_non_null(opened("GPU-again"));
    assert_null(arena_page_again(arena, page));
}

/* In a file system of its own, of 96 KiB: room for the arena's head and some pages. */
static int in_a_small_folder(void *arg)
{
    struct vgpu_arena *arena;
    unsigned page, count = 0;
    char path[4200];
    int rc, fd;

    (void)arg;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", scratch(), "tmpfs", 0, "size=96k,mode=700") < 0)
        return 77;
    while ((rc = open_arena("GPU-full", true, &arena)) == 0 &&
           (rc = arena_claim(arena, &page)) == 0)
        count++;
    CHECK(rc == -ENOSPC || rc == -EUSERS);
    CHECK(count > 2 && count < 32);
    /* Whatever anybody looks at is there, also where the first to come failed. */
    for (unsigned i = 0; i < arena_pages_high(arena); i++)
        CHECK(atomic_load(&arena->layout->page[i].granted_turn) == 0);
    /* No room at all. */
    snprintf(path, sizeof(path), "%s/rest", scratch());
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, path, sizeof(path)) > 0)
        continue;
    CHECK(open_arena("GPU-nothing", true, &arena) == -ENOSPC);
    CHECK(access(path_of("GPU-nothing"), F_OK) < 0);
    return 0;
}

TEST(no_room, setup)
{
    int status = finish(spawn(in_a_small_folder, NULL));

    if (status == 77)
        SKIP("the right to mount a tmpfs");
    assert_int_equal(status, 0);
}

static int takes_the_lock(void *arg)
{
    struct vgpu_arena *arena = arg;
    uint32_t word;

    CHECK(arena_lock(arena, ARENA_PAGES, &word));
    return 0; /* and dies with it */
}

static void *adds(void *arg)
{
    struct vgpu_arena *arena = arg;
    uint32_t word;

    for (unsigned i = 0; i < 20000 / SLOWER; i++) {
        if (!arena_lock(arena, ARENA_PAGES, &word))
            return arg;
        arena->layout->tenant[0].turns++;
        arena_unlock(arena, word);
    }
    return NULL;
}

TEST(the_lock, setup)
{
    struct vgpu_arena *arena = opened("GPU-lock");
    pthread_t threads[4];
    uint32_t word;
    void *failed;

    assert_non_null(arena);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, adds, arena), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(arena->layout->tenant[0].turns, 4 * (20000 / SLOWER));
    assert_int_equal(finish(spawn(takes_the_lock, arena)), 0);
    assert_true(arena_lock(arena, 0, &word));
    arena_unlock(arena, word);
    /* Nonsense in the word is somebody who is gone. */
    atomic_store(&arena->layout->lock, 0xffffffff);
    assert_true(arena_lock(arena, 0, &word));
    arena_unlock(arena, word);
    arena_unlock(arena, word); /* it is nobody's by now */
    assert_int_equal(atomic_load(&arena->layout->lock) & 0x7ff, 0);
}

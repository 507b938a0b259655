#include "sched/arena.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mutex.h"
#include "region/liveness.h"
#include "region/shm_lock.h"
#include "sched/arena_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(ARENA_PAGES + 1 <= SHM_LOCK_ID_MASK, "identities fit into the lock's word");

static struct arena_layout *map_file(int fd)
{
    void *map = mmap(NULL, sizeof(struct arena_layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

int arena_open(const char *uuid, bool make, struct vgpu_arena **ret_arena)
{
    KEEP_ERRNO;
    struct arena_place place;
    struct vgpu_arena *arena;
    int fd, rc = arena_place_find(uuid, geteuid(), &place);

    if (rc < 0)
        return rc;
    arena = calloc(1, sizeof(*arena));
    if (!arena)
        return -ENOMEM;
    memcpy(arena->path, place.path, sizeof(place.path));
    rc = arena_file_get(&place, uuid, make, &arena->liveness, &fd);
    if (rc == 0) {
        arena->layout = map_file(fd);
        rc = arena->layout ? 0 : err_last();
        if (rc < 0)
            liveness_put(arena->liveness);
    }
    if (rc < 0) {
        free(arena);
        return rc;
    }
    *ret_arena = arena;
    return 0;
}

void arena_close(struct vgpu_arena *arena)
{
    KEEP_ERRNO;

    if (!arena)
        return;
    munmap(arena->layout, sizeof(*arena->layout));
    liveness_put(arena->liveness);
    free(arena);
}

/* Pages of processes */

static unsigned page_id(unsigned page)
{
    return page + 1;
}

bool arena_alive(struct vgpu_arena *arena, unsigned page)
{
    return liveness_check(arena->liveness, page_id(page), NULL) != 0;
}

bool arena_holds(struct vgpu_arena *arena, unsigned page)
{
    liveness_check(arena->liveness, page_id(ARENA_PAGES),
                   NULL); /* any call looks after the descriptor */
    return liveness_holds(arena->liveness, page_id(page));
}

/* Together with the pages before it: the process that made them may have failed, and every process
 * looks at all of them. */
static int make_pages_real(struct vgpu_arena *arena, unsigned page)
{
    struct liveness *same;
    int fd, rc = liveness_get(arena->path, &same, &fd);

    if (rc < 0)
        return rc;
    if (same == arena->liveness)
        rc = file_make_real(fd, 0, (off_t)offsetof(struct arena_layout, page[page + 1]));
    else
        rc = -ESTALE; /* another file has this path by now */
    liveness_put(same);
    return rc;
}

void arena_wake(struct arena_page *page)
{
    atomic_fetch_add(&page->wake, 1);
    futex_wake(&page->wake, INT32_MAX, 1);
}

struct arena_page *arena_page_again(struct vgpu_arena *arena, unsigned page)
{
    KEEP_ERRNO;
    struct arena_layout *layout;
    struct liveness *same;
    int fd;

    if (liveness_get(arena->path, &same, &fd) < 0)
        return NULL;
    /* Maps the whole file: where pages of memory are larger than pages of the arena, one alone
     * cannot be mapped. */
    layout = same == arena->liveness ? map_file(fd) : NULL;
    liveness_put(same);
    return layout ? &layout->page[page] : NULL;
}

/* The process with the identity of a page may empty it: its former process is dead. */
static void empty_page(struct arena_page *page)
{
    atomic_store(&page->used, 0);
    memset(page, 0, sizeof(*page));
    atomic_store(&page->flags, ARENA_RESUME);
    page->pid = (int32_t)getpid();
}

int arena_claim(struct vgpu_arena *arena, unsigned *ret_page)
{
    KEEP_ERRNO;
    struct arena_layout *layout = arena->layout;

    for (unsigned i = 0; i < ARENA_PAGES; i++) {
        uint32_t high = atomic_load(&layout->pages_high);
        int rc = liveness_claim(arena->liveness, page_id(i));

        if (rc == -EBUSY)
            continue;
        if (rc == 0)
            rc = make_pages_real(arena, i);
        if (rc < 0) {
            liveness_drop(arena->liveness, page_id(i));
            return rc;
        }
        empty_page(&layout->page[i]);
        while (high <= i && !atomic_compare_exchange_weak(&layout->pages_high, &high, i + 1))
            ;
        *ret_page = i;
        return 0;
    }
    return -EUSERS;
}

void arena_release(struct vgpu_arena *arena, unsigned page)
{
    KEEP_ERRNO;

    atomic_store(&arena->layout->page[page].used, 0);
    liveness_drop(arena->liveness, page_id(page));
}

/* The lock */

/*
 * A holder loses the lock by time alone. It keeps it for some hundred instructions, so one that has
 * had it for ARENA_LOCK_STALE_NS is dead or stopped. Nothing is repaired: the next turn makes its
 * decisions anew, from the pages.
 */
static bool lost(void *arena, unsigned id)
{
    (void)arena;
    (void)id;
    return true;
}

static const struct shm_lock_rules rules = {
    .lost = lost,
    .ask_first_ns = ARENA_LOCK_STALE_NS,
    .ask_last_ns = ARENA_LOCK_STALE_NS,
    .nap_ns = ARENA_LOCK_NAP_NS,
};

bool arena_lock(struct vgpu_arena *arena, unsigned page, uint32_t *ret_word)
{
    unsigned id = page_id(page < ARENA_PAGES ? page : ARENA_PAGES);

    return shm_lock_take(&arena->layout->lock, &rules, arena, id, ARENA_LOCK_BOUND_NS, ret_word) >=
           0;
}

void arena_unlock(struct vgpu_arena *arena, uint32_t word)
{
    shm_lock_release(&arena->layout->lock, word);
}

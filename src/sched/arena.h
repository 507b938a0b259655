/*
 * The arena of a device: the file through which instances take turns on it. What it holds is in
 * arena_layout.h.
 *
 * Found by the device's UUID in $VGPU_ARENA_DIR (default /dev/shm), made by whoever comes first. It
 * is its user's own, unless root has set up a folder that users share (sched/arena_file.h).
 * Functions may be called from any thread, keep errno and never wait for longer than
 * ARENA_LOCK_BOUND_NS.
 */
#ifndef VGPU_SCHED_ARENA_H
#define VGPU_SCHED_ARENA_H

#include "sched/arena_layout.h"
#include "sched/sched_params.h"

#include <stdbool.h>

#define ARENA_PATH_MAX 512

struct liveness;

struct vgpu_arena {
    struct arena_layout *layout;
    struct liveness *liveness;
    char path[ARENA_PATH_MAX];
};

/* Where arenas are: $VGPU_ARENA_DIR where that is an absolute path, else /dev/shm. */
const char *arena_folder(void);

/*
 * Opens the arena of a device, makes it if need be (`make`). In a program of somebody else's it is
 * never closed: threads may look at it any time. A damaged file is made anew. -ENOENT, -EACCES,
 * -ENOSPC ... from the system; -ENOMEM; -EPERM: the file is another user's, or others may write it;
 * -EPROTO: it is damaged or of another version, and in use, or no file at all.
 */
int arena_open(const char *uuid, bool make, struct vgpu_arena **ret_arena);

/*
 * What arena_open() would find, without making or mapping anything: 0: it works; ARENA_BROKEN: the
 * file is damaged and will be made anew; -errno of arena_open(). For processes that have no page of
 * any arena.
 */
#define ARENA_BROKEN 1
int arena_check(const char *uuid);

/* What is wrong where arena_open() or arena_claim() returns rc, as the end of a sentence. */
const char *arena_error_text(int rc, char *buffer, size_t bytes);

/* For whoever knows that none of its threads looks at it any more. NULL is fine. */
void arena_close(struct vgpu_arena *arena);

/*
 * Takes a page for this process. -EUSERS: all are taken. The page is empty, and its flags say
 * ARENA_RESUME. A forked child has none.
 */
int arena_claim(struct vgpu_arena *arena, unsigned *ret_page);
void arena_release(struct vgpu_arena *arena, unsigned page);
bool arena_alive(struct vgpu_arena *arena,
                 unsigned page); /* its process; unknown counts as alive */

/*
 * Whether a claimed page is this process's still. Programs that close all descriptors lose it; it
 * is taken back here, unless somebody has claimed it meanwhile.
 */
bool arena_holds(struct vgpu_arena *arena, unsigned page);

/* Whoever looks after the page should look. All are woken: a process that has lost its page may
 * still sleep on it. */
void arena_wake(struct arena_page *page);

/* The same page once more, at another address. NULL: not to be had. It stays. */
struct arena_page *arena_page_again(struct vgpu_arena *arena, unsigned page);

/* Takes the lock as the process of `page` (ARENA_PAGES: as nobody in particular). False: not within
 * the bound. */
bool arena_lock(struct vgpu_arena *arena, unsigned page, uint32_t *ret_word);
void arena_unlock(struct vgpu_arena *arena, uint32_t word);

static inline unsigned arena_pages_high(const struct vgpu_arena *arena)
{
    uint32_t high = atomic_load_explicit(&arena->layout->pages_high, memory_order_acquire);

    return high > ARENA_PAGES ? ARENA_PAGES : high;
}

#endif

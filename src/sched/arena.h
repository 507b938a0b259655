/*
 * The arena of a device: the file through which instances take turns on it. arena_layout.h
 * describes its contents.
 *
 * Its name has the device's UUID, in $VGPU_ARENA_DIR (default /dev/shm). The first process that
 * needs it makes it. It belongs to one user, unless root has set up a folder that users share
 * (sched/arena_file.h). Functions may be called from any thread, keep errno and never wait for
 * longer than ARENA_LOCK_BOUND_NS.
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

/* The folder of arenas: $VGPU_ARENA_DIR if that is an absolute path, else /dev/shm. */
const char *arena_folder(void);

/*
 * Opens the arena of a device, and makes it if there is none (`make`). A damaged file is replaced.
 * A preloaded library never closes an arena, for threads may look at it any time. -ENOENT, -EACCES,
 * -ENOSPC ... from the system; -ENOMEM; -EPERM: the file is another user's, or others may write it;
 * -EPROTO: it is damaged or of another version, and in use, or no regular file.
 */
int arena_open(const char *uuid, bool make, struct vgpu_arena **ret_arena);

/*
 * What arena_open() would find, without making or mapping anything. 0: it works; ARENA_BROKEN: the
 * file is damaged and will be replaced; -errno of arena_open(). For processes that have no page of
 * any arena.
 */
#define ARENA_BROKEN 1
int arena_check(const char *uuid);

/* The reason for an error rc of arena_open() or arena_claim(), as the end of a sentence. */
const char *arena_error_text(int rc, char *buffer, size_t bytes);

/* Call it only if no thread uses the arena any more. NULL is fine. */
void arena_close(struct vgpu_arena *arena);

/*
 * Takes a page for this process. -EUSERS: all are taken. The page is empty, and its flags say
 * ARENA_RESUME. A forked child has none.
 */
int arena_claim(struct vgpu_arena *arena, unsigned *ret_page);
void arena_release(struct vgpu_arena *arena, unsigned page);
bool arena_alive(struct vgpu_arena *arena,
                 unsigned page); /* Whether the page's process lives; unknown counts as alive */

/*
 * Whether a claimed page still is this process's. A program that closes all descriptors loses it.
 * This call takes it back, unless another process has claimed it meanwhile.
 */
bool arena_holds(struct vgpu_arena *arena, unsigned page);

/* Wakes all threads that sleep on the page, among them those of a process that has lost it. */
void arena_wake(struct arena_page *page);

/* Maps the page once more, at another address, for the life of the process. NULL: that is not
 * possible. */
struct arena_page *arena_page_again(struct vgpu_arena *arena, unsigned page);

/* Takes the lock as the process of `page`; ARENA_PAGES: without a page. False: not within
 * ARENA_LOCK_BOUND_NS. */
bool arena_lock(struct vgpu_arena *arena, unsigned page, uint32_t *ret_word);
void arena_unlock(struct vgpu_arena *arena, uint32_t word);

static inline unsigned arena_pages_high(const struct vgpu_arena *arena)
{
    uint32_t high = atomic_load_explicit(&arena->layout->pages_high, memory_order_acquire);

    return high > ARENA_PAGES ? ARENA_PAGES : high;
}

#endif

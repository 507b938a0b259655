/*
 * Exports and imports: see shared.h.
 */
#include "hook/shared.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "base/log.h"
#include "base/mutex.h"
#include "hook/charge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

/* Keys with this bit are hashes; the others are positions in a file, far behind the end of any. */
#define KEY_HASH     (1ULL << 63)
#define KEY_POSITION (1ULL << 62)
#define MARK_TRIES   8

struct shared {
    struct ledger_share share;
    unsigned slice;
    enum vgpu_kind kind;
    uint64_t own_bytes;
    unsigned references;
    struct shared *next;
};

static struct shared *all;
static struct vgpu_mutex all_lock = VGPU_MUTEX_INIT; /* for the list and the counts */

/* Keys */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static uint64_t hash_key(const struct shared_handle *handle)
{
    const unsigned char *bytes = handle->bytes;
    uint64_t hash = mix(handle->length);

    for (size_t i = 0; i < handle->length; i++)
        hash = mix(hash ^ bytes[i]);
    return hash | KEY_HASH;
}

static struct flock lock_at(uint64_t position)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)position, .l_len = 1};
}

/* Marks the open file behind a descriptor. An exclusive lock: no other file of the inode can have the same mark. */
static int mark(int fd, uint64_t *ret_key)
{
    static _Atomic uint64_t count;

    for (int i = 0; i < MARK_TRIES; i++) {
        uint64_t seed = clock_ns() ^ (uint64_t)getpid() << 40 ^ (uintptr_t)&seed;
        uint64_t key = KEY_POSITION | (mix(seed + atomic_fetch_add(&count, 1)) & (KEY_POSITION / 2 - 1));
        struct flock lock = lock_at(key);

        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_key = key;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return -errno;
    }
    return -EAGAIN;
}

/* Whether this very file has the mark: somebody has it, and nobody but this file. */
static bool is_marked(int fd, uint64_t key)
{
    struct flock any = lock_at(key), other = lock_at(key);

    return fcntl(fd, F_GETLK, &any) == 0 && any.l_type != F_UNLCK && fcntl(fd, F_OFD_GETLK, &other) == 0 &&
           other.l_type == F_UNLCK;
}

static bool is_of_handle(uint64_t key, void *arg)
{
    const struct shared_handle *handle = arg;

    if (key & KEY_HASH)
        return handle->fd < 0 && key == hash_key(handle);
    return handle->fd >= 0 && key & KEY_POSITION && is_marked(handle->fd, key);
}

/* The list */

static void lock_list(void)
{
    charge_watch_forks();
    fork_check();
    mutex_lock(&all_lock);
}

static struct shared *add(const struct ledger_share_memory *memory)
{
    struct shared *shared = charge_zalloc(sizeof(*shared));

    if (shared == NULL)
        return NULL;
    shared->share = memory->share;
    shared->slice = memory->slice;
    shared->kind = memory->kind;
    shared->references = 1;
    lock_list();
    shared->next = all;
    all = shared;
    mutex_unlock(&all_lock);
    return shared;
}

static struct shared *known(struct ledger_share share)
{
    struct shared *shared;

    lock_list();
    for (shared = all; shared != NULL; shared = shared->next) {
        if (shared->share.index == share.index && shared->share.generation == share.generation) {
            shared->references++;
            break;
        }
    }
    mutex_unlock(&all_lock);
    return shared;
}

int shared_new(struct vgpu_ledger *ledger, unsigned slice, enum vgpu_kind kind, uint64_t bytes,
               struct shared **ret_shared)
{
    KEEP_ERRNO;
    struct ledger_share_memory memory = {.slice = slice, .kind = kind};
    int rc = ledger_share(ledger, slice, kind, bytes, &memory.share);

    *ret_shared = NULL;
    if (rc < 0)
        return rc == -EOPNOTSUPP ? 0 : rc;
    *ret_shared = add(&memory);
    if (*ret_shared != NULL)
        return 0;
    ledger_share_leave(ledger, memory.share, slice, kind, 0);
    return -ENOMEM;
}

void shared_own(struct shared *shared, uint64_t own_bytes)
{
    lock_list();
    shared->own_bytes = own_bytes;
    mutex_unlock(&all_lock);
}

int shared_exported(struct vgpu_ledger *ledger, struct shared *shared, const struct shared_handle *handle)
{
    KEEP_ERRNO;
    uint64_t key = 0;
    int rc = 0;

    if (handle->fd >= 0)
        rc = mark(handle->fd, &key);
    else
        key = hash_key(handle);
    return rc < 0 ? rc : ledger_share_key(ledger, shared->share, key);
}

void shared_cannot_follow(int negative_errno)
{
    KEEP_ERRNO;
    static atomic_bool told;

    if (!atomic_exchange(&told, true))
        log_warning("memory that was exported stays charged to this process until it ends: %s",
                    strerror(-negative_errno));
}

int shared_imported(struct vgpu_ledger *ledger, const struct shared_handle *handle, struct shared **ret_shared,
                    struct ledger_share_memory *ret_memory)
{
    KEEP_ERRNO;
    struct shared_handle wanted = *handle;
    int rc;

    *ret_shared = NULL;
    if (!ledger_share_find(ledger, is_of_handle, &wanted, ret_memory))
        return 0;
    *ret_shared = known(ret_memory->share);
    if (*ret_shared != NULL)
        return 0;
    rc = ledger_share_join(ledger, ret_memory->share);
    if (rc < 0)
        return -ESTALE;
    *ret_shared = add(ret_memory);
    if (*ret_shared != NULL)
        return 0;
    ledger_share_leave(ledger, ret_memory->share, ret_memory->slice, ret_memory->kind, 0);
    return -ESTALE;
}

void shared_drop(struct vgpu_ledger *ledger, struct shared *shared)
{
    struct shared **at;
    bool last;

    lock_list();
    last = --shared->references == 0;
    for (at = &all; last && *at != NULL; at = &(*at)->next) {
        if (*at == shared) {
            *at = shared->next;
            break;
        }
    }
    mutex_unlock(&all_lock);
    if (!last)
        return;
    if (!ledger_share_leave(ledger, shared->share, shared->slice, shared->kind, shared->own_bytes) &&
        shared->own_bytes > 0)
        ledger_release(ledger, shared->slice, shared->kind, shared->own_bytes);
    free(shared);
}

void shared_forked(void)
{
    mutex_init(&all_lock);
    all = NULL;
}

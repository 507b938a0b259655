#include "hook/memory/shared.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/forkwatch.h"
#include "base/log.h"
#include "base/mutex.h"
#include "hook/loader/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

/*
 * Keys with this bit are hashes. The others are positions in a file, far behind the end of any. All
 * marks of a memory lie in one span of positions, so that one question tells whether a descriptor
 * of it is left.
 */
#define KEY_HASH     (1ULL << 63)
#define KEY_POSITION (1ULL << 62)
#define KEY_SPAN     (1ULL << 16)
#define MARK_TRIES   8

/*
 * A file of the inode of the driver's descriptors, to ask about locks with. It is opened for that,
 * and keeps no memory. Never freed: there is one for each inode, and a device has few. The program
 * may close it.
 */
struct probe {
    dev_t device;
    ino_t inode;
    int fd;
    struct probe *next;
};

/* Without references it waits until the last descriptor of its memory is closed. */
struct shared {
    struct ledger_share share;
    unsigned vdev;
    enum vgpu_kind kind;
    uint64_t own_bytes;
    unsigned references;
    uint64_t span;       /* of its marks; 0: no descriptor has one */
    struct probe *probe; /* NULL: nobody can be asked */
    struct shared *next;
};

static struct shared *all;
static struct probe *probes;
static atomic_uint waiting; /* how many of `all` have no reference; written under the lock */
static struct vgpu_mutex all_lock = VGPU_MUTEX_INIT; /* for the lists and their members */

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

static struct flock lock_at(uint64_t position, uint64_t length)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)position,
                          .l_len = (off_t)length};
}

static uint64_t random_number(void)
{
    static _Atomic uint64_t count;
    uint64_t seed = clock_ns() ^ (uint64_t)getpid() << 40 ^ (uintptr_t)&seed;

    return mix(seed + atomic_fetch_add(&count, 1));
}

static uint64_t new_span(void)
{
    return KEY_POSITION | (random_number() & (KEY_POSITION / 2 - 1) & ~(KEY_SPAN - 1));
}

/* Marks the open file behind a descriptor, within a span. The lock is exclusive: no other file of
 * the inode can have the same mark. */
static int shared_mark(int fd, uint64_t span, uint64_t *ret_key)
{
    for (int i = 0; i < MARK_TRIES; i++) {
        uint64_t key = span | (random_number() & (KEY_SPAN - 1));
        struct flock lock = lock_at(key, 1);

        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_key = key;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return -errno;
    }
    return -EAGAIN;
}

/* Whether this very file has the mark: it is set, and this file can take it again. */
static bool is_marked(int fd, uint64_t key)
{
    struct flock any = lock_at(key, 1), other = lock_at(key, 1);

    return fcntl(fd, F_GETLK, &any) == 0 && any.l_type != F_UNLCK &&
           fcntl(fd, F_OFD_GETLK, &other) == 0 && other.l_type == F_UNLCK;
}

struct wanted {
    const struct shared_handle *handle;
    uint64_t key; /* the key that it was found by */
};

static bool is_of_handle(uint64_t key, void *arg)
{
    struct wanted *wanted = arg;
    const struct shared_handle *handle = wanted->handle;

    wanted->key = key;
    if (key & KEY_HASH)
        return handle->fd < 0 && key == hash_key(handle);
    return handle->fd >= 0 && key & KEY_POSITION && is_marked(handle->fd, key);
}

/* Descriptors that are left */

static bool is_open(const struct probe *probe)
{
    struct stat info;

    return file_stat_fd(probe->fd, &info) == 0 && info.st_dev == probe->device &&
           info.st_ino == probe->inode;
}

/* Another file of the same inode. -1: without /proc. */
static int open_again(int fd)
{
    char path[sizeof("/proc/self/fd/") + 12];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Under the lock. */
static struct probe *probe_for(int fd)
{
    struct probe *probe;
    struct stat info;

    if (file_stat_fd(fd, &info) < 0)
        return NULL;
    for (probe = probes; probe != NULL; probe = probe->next) {
        if (probe->device == info.st_dev && probe->inode == info.st_ino)
            break;
    }
    if (probe == NULL) {
        probe = calloc(1, sizeof(*probe));
        if (probe == NULL)
            return NULL;
        *probe =
            (struct probe){.device = info.st_dev, .inode = info.st_ino, .fd = -1, .next = probes};
        probes = probe;
    }
    if (!is_open(probe))
        probe->fd = open_again(fd);
    return probe;
}

/* If nobody can be asked, none is left. Otherwise a program would stay charged for ever for what it
 * has closed. */
static bool descriptor_left(const struct shared *shared)
{
    struct flock any = lock_at(shared->span, KEY_SPAN);

    return shared->span != 0 && shared->probe != NULL && is_open(shared->probe) &&
           fcntl(shared->probe->fd, F_GETLK, &any) == 0 && any.l_type != F_UNLCK;
}

/* The list */

static void shared_forget(void)
{
    mutex_init(&all_lock);
    all = NULL;
    atomic_store(&waiting, 0);
}

static struct memory_source source = {.forked = shared_forget};

static void lock_list(void)
{
    sources_register(&source);
    fork_check();
    mutex_lock(&all_lock);
}

static struct shared *shared_add(const struct ledger_share_memory *memory)
{
    struct shared *shared = hook_zalloc(sizeof(*shared));

    if (shared == NULL)
        return NULL;
    shared->share = memory->share;
    shared->vdev = memory->vdev;
    shared->kind = memory->kind;
    shared->references = 1;
    lock_list();
    shared->next = all;
    all = shared;
    mutex_unlock(&all_lock);
    return shared;
}

static struct shared *shared_known(struct ledger_share share)
{
    struct shared *shared;

    lock_list();
    for (shared = all; shared != NULL; shared = shared->next) {
        if (shared->share.index == share.index && shared->share.generation == share.generation) {
            if (shared->references++ == 0)
                atomic_fetch_sub(&waiting, 1);
            break;
        }
    }
    mutex_unlock(&all_lock);
    return shared;
}

int shared_new(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
               struct shared **ret_shared)
{
    KEEP_ERRNO;
    struct ledger_share_memory memory = {.vdev = vdev, .kind = kind};
    int rc = ledger_share(ledger, vdev, kind, bytes, &memory.share);

    *ret_shared = NULL;
    if (rc < 0)
        return rc == -EOPNOTSUPP ? 0 : rc;
    *ret_shared = shared_add(&memory);
    if (*ret_shared != NULL)
        return 0;
    ledger_share_leave(ledger, memory.share, vdev, kind, 0);
    return -ENOMEM;
}

void shared_own(struct shared *shared, enum vgpu_kind kind, uint64_t own_bytes)
{
    lock_list();
    shared->kind = kind;
    shared->own_bytes = own_bytes;
    mutex_unlock(&all_lock);
}

void shared_hold(struct shared *shared)
{
    lock_list();
    shared->references++;
    mutex_unlock(&all_lock);
}

/* Notes a descriptor of a memory. Returns the span of its marks: `span`, unless it has one. */
static uint64_t note_descriptor(struct shared *shared, int fd, uint64_t span)
{
    lock_list();
    if (shared->span == 0)
        shared->span = span;
    span = shared->span;
    shared->probe = probe_for(fd);
    mutex_unlock(&all_lock);
    return span;
}

int shared_exported(struct vgpu_ledger *ledger, struct shared *shared,
                    const struct shared_handle *handle)
{
    KEEP_ERRNO;
    uint64_t key = 0;
    int rc = 0;

    if (handle->fd >= 0)
        rc = shared_mark(handle->fd, note_descriptor(shared, handle->fd, new_span()), &key);
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

int shared_imported(struct vgpu_ledger *ledger, const struct shared_handle *handle,
                    struct shared **ret_shared, struct ledger_share_memory *ret_memory)
{
    KEEP_ERRNO;
    struct wanted wanted = {.handle = handle};
    int rc;

    *ret_shared = NULL;
    if (!ledger_share_find(ledger, is_of_handle, &wanted, ret_memory))
        return 0;
    *ret_shared = shared_known(ret_memory->share);
    if (*ret_shared != NULL)
        return 0;
    rc = ledger_share_join(ledger, ret_memory->share);
    if (rc < 0)
        return -ESTALE;
    *ret_shared = shared_add(ret_memory);
    if (*ret_shared != NULL) {
        if (handle->fd >= 0)
            note_descriptor(*ret_shared, handle->fd, wanted.key & ~(KEY_SPAN - 1));
        return 0;
    }
    ledger_share_leave(ledger, ret_memory->share, ret_memory->vdev, ret_memory->kind, 0);
    return -ESTALE;
}

/* Of one that is in no list any more. */
static void shared_give_back(struct vgpu_ledger *ledger, struct shared *shared)
{
    if (!ledger_share_leave(ledger, shared->share, shared->vdev, shared->kind, shared->own_bytes) &&
        shared->own_bytes > 0)
        ledger_release(ledger, shared->vdev, shared->kind, shared->own_bytes);
    free(shared);
}

/* Takes out the first one without a handle and without a descriptor. */
static struct shared *take_unused(void)
{
    struct shared **at, *shared;

    lock_list();
    for (at = &all; *at != NULL; at = &(*at)->next) {
        if ((*at)->references == 0 && !descriptor_left(*at))
            break;
    }
    shared = *at;
    if (shared != NULL) {
        *at = shared->next;
        atomic_fetch_sub(&waiting, 1);
    }
    mutex_unlock(&all_lock);
    return shared;
}

void shared_sweep(struct vgpu_ledger *ledger)
{
    KEEP_ERRNO;
    struct shared *shared;

    while (atomic_load_explicit(&waiting, memory_order_relaxed) > 0 &&
           (shared = take_unused()) != NULL)
        shared_give_back(ledger, shared);
}

void shared_drop(struct vgpu_ledger *ledger, struct shared *shared)
{
    lock_list();
    if (--shared->references == 0)
        atomic_fetch_add(&waiting, 1);
    mutex_unlock(&all_lock);
    shared_sweep(ledger);
}

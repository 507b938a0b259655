#include "region/liveness.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "region/layout.h"

#include <fcntl.h>
#include <stdio.h>

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

#define FD_FLOOR 700 /* our descriptors are at least this, if the process's limit allows */

struct liveness {
    dev_t device;
    ino_t inode;
    int fd;       /* mapped by callers, so a forked child keeps it; no locks */
    int life_fd;  /* another open file description, for locks only, never mapped */
    bool private; /* life_fd is not shared with a parent, and the kernel has OFD locks */
    unsigned references;
    char *path;
    uint64_t mine[(LOCK_IDS + 63) /
                  64]; /* identities of this process, which the kernel does not report to it */
    struct liveness *next;
};

/* Held for a few system calls at most. Guards all that follows. */
static struct vgpu_mutex registry_lock = VGPU_MUTEX_INIT;
static struct liveness *registry;
static bool watching;
static struct fork_watch watch;

static bool is_mine(const struct liveness *l, unsigned id)
{
    return l->mine[id / 64] >> (id % 64) & 1;
}

static void set_mine(struct liveness *l, unsigned id, bool mine)
{
    uint64_t bit = 1ULL << (id % 64);

    l->mine[id / 64] = mine ? l->mine[id / 64] | bit : l->mine[id / 64] & ~bit;
}

static bool same_file(const struct liveness *l, const struct stat *st)
{
    return l->device == st->st_dev && l->inode == st->st_ino;
}

static bool is_ours(const struct liveness *l, int fd)
{
    struct stat st;

    return fd >= 0 && file_stat_fd(fd, &st) == 0 && same_file(l, &st);
}

static int open_at(const char *path, int flags, struct stat *ret_stat)
{
    int fd CLEANUP_CLOSE = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | flags);
    int high, rc;

    if (fd < 0)
        return err_last();
    rc = file_stat_fd(fd, ret_stat);
    if (rc < 0)
        return rc;
    if (!S_ISREG(ret_stat->st_mode))
        return -EPROTO;
    high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
    return high >= 0 ? high : steal_fd(&fd);
}

/* Opens the same file again, by a descriptor or by its path, as a new description. System calls
 * only. */
static int open_again(const struct liveness *l)
{
    char path[40];
    struct stat st;
    int fd;

    if (is_ours(l, l->fd)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", l->fd);
        fd = open_at(path, 0, &st);
        if (fd >= 0 && same_file(l, &st))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    fd = open_at(l->path, O_NOFOLLOW, &st);
    if (fd >= 0 && !same_file(l, &st)) {
        close(fd);
        return -ESTALE;
    }
    return fd;
}

static struct liveness *find(const struct stat *st)
{
    for (struct liveness *l = registry; l; l = l->next)
        if (same_file(l, st))
            return l;
    return NULL;
}

static struct flock byte_of(off_t base, unsigned id, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = base + id, .l_len = 1};
}

static int set_lock(const struct liveness *l, int command, off_t base, unsigned id, short type)
{
    struct flock lock = byte_of(base, id, type);

    if (fcntl(l->life_fd, command, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : err_last();
}

/* Whether another process has locked the byte. *ret_pid: its pid; 0: not visible here; -1: locked
 * by a description. */
static int test_lock(const struct liveness *l, off_t base, unsigned id, pid_t *ret_pid)
{
    struct flock lock = byte_of(base, id, F_WRLCK);

    if (fcntl(l->life_fd, F_GETLK, &lock) < 0)
        return err_last();
    *ret_pid = lock.l_pid;
    return lock.l_type != F_UNLCK;
}

/* Under registry_lock. Takes the owner's byte first: by it, claims exclude each other. */
static int take(struct liveness *l, unsigned id)
{
    pid_t pid;
    int rc = set_lock(l, F_SETLK, OWNER_BYTE_BASE, id, F_WRLCK);

    if (rc < 0)
        return rc;
    if (l->private) {
        rc = set_lock(l, F_OFD_SETLK, LOCK_BYTE_BASE, id, F_WRLCK);
        if (rc == -EINVAL)
            l->private = false;
    }
    if (!l->private) {
        rc = test_lock(l, LOCK_BYTE_BASE, id, &pid);
        if (rc > 0)
            rc = -EBUSY;
    }
    if (rc < 0)
        set_lock(l, F_SETLK, OWNER_BYTE_BASE, id, F_UNLCK);
    return rc;
}

/*
 * In a child of fork: it has none of the locks, and must not keep its parent's. It gets a
 * description of its own in place of the shared one. Runs in the fork handler, too, so system calls
 * only.
 */
static void leave_parent(struct liveness *l)
{
    int fd = open_again(l);

    memset(l->mine, 0, sizeof(l->mine));
    l->private = fd >= 0;
    if (fd < 0)
        return;
    if (is_ours(l, l->life_fd) && dup3(fd, l->life_fd, O_CLOEXEC) >= 0)
        close(fd);
    else
        l->life_fd = fd;
}

static void in_child(void *arg)
{
    (void)arg;
    mutex_init(&registry_lock);
    for (struct liveness *l = registry; l; l = l->next)
        leave_parent(l);
}

/* Under registry_lock. Repairs a descriptor that the program has closed. Its number may be the
 * program's by now, so it is not closed. */
static int verify(struct liveness *l)
{
    int fd;

    if (is_ours(l, l->life_fd))
        return 0;
    fd = open_again(l);
    if (fd < 0)
        return fd;
    l->life_fd = fd;
    l->private = true;
    for (unsigned id = 0; id < LOCK_IDS; id++) {
        if (is_mine(l, id) && take(l, id) < 0)
            set_mine(l, id, false);
    }
    return 0;
}

/* The same for the descriptor that callers get. */
static int verify_map(struct liveness *l)
{
    int fd;

    if (is_ours(l, l->fd))
        return 0;
    fd = open_again(l);
    if (fd >= 0)
        l->fd = fd;
    return fd < 0 ? fd : 0;
}

static void free_liveness(struct liveness *l)
{
    if (is_ours(l, l->fd))
        close(l->fd);
    if (is_ours(l, l->life_fd))
        close(l->life_fd);
    free(l->path);
    free(l);
}

static int make(const char *path, struct liveness **ret_liveness)
{
    struct liveness *l = calloc(1, sizeof(*l));
    struct stat st;
    int rc = -ENOMEM;

    if (!l)
        return rc;
    l->life_fd = l->fd = -1;
    l->path = strdup(path);
    if (l->path)
        rc = l->fd = open_at(path, O_NOFOLLOW, &st);
    if (rc >= 0) {
        l->device = st.st_dev;
        l->inode = st.st_ino;
        rc = l->life_fd = open_again(l);
    }
    if (rc < 0) {
        free_liveness(l);
        return rc;
    }
    l->private = true;
    l->references = 1;
    l->next = registry;
    registry = l;
    *ret_liveness = l;
    return 0;
}

int liveness_get(const char *path, struct liveness **ret_liveness, int *ret_fd)
{
    KEEP_ERRNO;
    struct liveness *l = NULL;
    struct stat st;
    int rc;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (!watching) {
        watch.child = in_child;
        watch.at_once = true;
        fork_watch_add(&watch);
        watching = true;
    }
    /* Asks before it opens: opening a known file again and closing it drops the owners' bytes. */
    rc = file_stat_path(path, 0, &st);
    if (rc < 0)
        return rc;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    l = find(&st);
    if (l) {
        rc = verify(l);
        if (rc == 0)
            rc = verify_map(l);
        if (rc == 0)
            l->references++;
    } else {
        rc = make(path, &l);
    }
    if (rc < 0)
        return rc;
    *ret_liveness = l;
    *ret_fd = l->fd;
    return 0;
}

void liveness_put(struct liveness *l)
{
    KEEP_ERRNO;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (--l->references > 0)
        return;
    for (struct liveness **at = &registry; *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    free_liveness(l);
}

int liveness_claim(struct liveness *l, unsigned id)
{
    KEEP_ERRNO;
    int rc;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (is_mine(l, id))
        return -EBUSY;
    rc = verify(l);
    if (rc == 0)
        rc = take(l, id);
    if (rc == 0)
        set_mine(l, id, true);
    return rc;
}

void liveness_drop(struct liveness *l, unsigned id)
{
    KEEP_ERRNO;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (!is_mine(l, id))
        return;
    set_mine(l, id, false);
    if (verify(l) < 0)
        return;
    if (l->private)
        set_lock(l, F_OFD_SETLK, LOCK_BYTE_BASE, id, F_UNLCK);
    set_lock(l, F_SETLK, OWNER_BYTE_BASE, id, F_UNLCK);
}

bool liveness_holds(struct liveness *l, unsigned id)
{
    fork_check();
    MUTEX_SCOPE(&registry_lock);
    return is_mine(l, id);
}

int liveness_check(struct liveness *l, unsigned id, pid_t *ret_pid)
{
    KEEP_ERRNO;
    pid_t pid;
    int rc;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    rc = verify(l);
    if (is_mine(l, id)) {
        /* The owner's byte may be lost with a descriptor that the program has closed. */
        if (rc == 0)
            set_lock(l, F_SETLK, OWNER_BYTE_BASE, id, F_WRLCK);
        pid = getpid();
        rc = 1;
    } else if (rc == 0) {
        rc = test_lock(l, OWNER_BYTE_BASE, id, &pid);
        if (rc == 0)
            rc = test_lock(l, LOCK_BYTE_BASE, id, &pid);
    }
    if (rc > 0 && ret_pid)
        *ret_pid = pid;
    return rc;
}

const char *liveness_unlinked(struct liveness *l)
{
    KEEP_ERRNO;
    struct stat st;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (verify_map(l) < 0 || file_stat_fd(l->fd, &st) < 0 || !same_file(l, &st) || st.st_nlink > 0)
        return NULL;
    return l->path;
}

#include "region/liveness.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "region/layout.h"

#include <fcntl.h>

#define FD_FLOOR 700 /* descriptors of ours are at least this, where the limit allows */

struct liveness {
    dev_t device;
    ino_t inode;
    int fd;
    unsigned references;
    char *path;
    uint64_t mine[(LOCK_IDS + 63) / 64]; /* identities that this process holds: the kernel does not tell us of those */
    struct liveness *next;
};

/* Held for a few system calls at most. Guards everything below. */
static struct vgpu_mutex registry_lock = VGPU_MUTEX_INIT;
static struct liveness *registry;
static bool watching;
static struct fork_watch watch;

/* A child shares the open file, which is fine, but holds none of the locks. */
static void in_child(void *arg)
{
    (void)arg;
    mutex_init(&registry_lock);
    for (struct liveness *l = registry; l; l = l->next)
        memset(l->mine, 0, sizeof(l->mine));
}

static bool is_mine(const struct liveness *l, unsigned id)
{
    return l->mine[id / 64] >> (id % 64) & 1;
}

static void set_mine(struct liveness *l, unsigned id, bool mine)
{
    uint64_t bit = 1ULL << (id % 64);

    l->mine[id / 64] = mine ? l->mine[id / 64] | bit : l->mine[id / 64] & ~bit;
}

static int open_file(const char *path, struct stat *ret_stat)
{
    int fd CLEANUP_CLOSE = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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

static bool same_file(const struct liveness *l, const struct stat *st)
{
    return l->device == st->st_dev && l->inode == st->st_ino;
}

static struct liveness *find(const struct stat *st)
{
    for (struct liveness *l = registry; l; l = l->next)
        if (same_file(l, st))
            return l;
    return NULL;
}

static struct flock byte_of(unsigned id, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_BYTE_BASE + id, .l_len = 1};
}

static int set_lock(const struct liveness *l, unsigned id, short type)
{
    struct flock lock = byte_of(id, type);

    if (fcntl(l->fd, F_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : err_last();
}

/* Under registry_lock. */
static int verify(struct liveness *l)
{
    struct stat st;
    int fd;

    if (file_stat_fd(l->fd, &st) == 0 && same_file(l, &st))
        return 0;
    /* The number may be the program's by now: not ours to close. */
    fd = open_file(l->path, &st);
    if (fd < 0)
        return fd;
    if (!same_file(l, &st)) {
        close(fd);
        return -ESTALE;
    }
    l->fd = fd;
    for (unsigned id = 0; id < LOCK_IDS; id++) {
        if (is_mine(l, id) && set_lock(l, id, F_WRLCK) < 0)
            set_mine(l, id, false);
    }
    return 0;
}

static int make(const char *path, struct liveness **ret_liveness)
{
    struct liveness *l;
    struct stat st;
    int fd = open_file(path, &st);

    if (fd < 0)
        return fd;
    l = calloc(1, sizeof(*l));
    if (l)
        l->path = strdup(path);
    if (!l || !l->path) {
        free(l);
        close(fd);
        return -ENOMEM;
    }
    l->fd = fd;
    l->device = st.st_dev;
    l->inode = st.st_ino;
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
        fork_watch_add(&watch);
        watching = true;
    }
    /* Ask before opening: to open a file that we have already, and to close it again, would drop its locks. */
    rc = file_stat_path(path, 0, &st);
    if (rc < 0)
        return rc;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    l = find(&st);
    if (l) {
        rc = verify(l);
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
    struct stat st;

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
    if (file_stat_fd(l->fd, &st) == 0 && same_file(l, &st))
        close(l->fd);
    free(l->path);
    free(l);
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
        rc = set_lock(l, id, F_WRLCK);
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
    if (verify(l) == 0)
        set_lock(l, id, F_UNLCK);
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
    struct flock lock = byte_of(id, F_WRLCK);
    int rc;

    fork_check();
    MUTEX_SCOPE(&registry_lock);
    if (is_mine(l, id)) {
        if (ret_pid)
            *ret_pid = getpid();
        return 1;
    }
    rc = verify(l);
    if (rc < 0)
        return rc;
    if (fcntl(l->fd, F_GETLK, &lock) < 0)
        return err_last();
    if (lock.l_type == F_UNLCK)
        return 0;
    if (ret_pid)
        *ret_pid = lock.l_pid > 0 ? lock.l_pid : 0;
    return 1;
}

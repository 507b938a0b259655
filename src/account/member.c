#include "account/member.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/fsize.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define PID_BITS  22 /* the kernel's PID_MAX_LIMIT */
#define SIDE_BITS 54 /* an inode number of 32 bits and a pid */
#define MAP_BYTES 4096

enum side { MEMBERS, LEADERS };

static off_t side_start(enum side side)
{
    return (off_t)side << SIDE_BITS;
}

static off_t own_byte(enum side side)
{
    struct stat namespace = {.st_ino = 0};

    file_stat_path("/proc/self/ns/pid", 1, &namespace);
    return side_start(side) + ((off_t)(uint32_t) namespace.st_ino << PID_BITS) + getpid();
}

/* On a kernel without OFD locks (before 3.15) the process's own lock is used: a leader's lasts, a
 * member's does not. */
static int lock_call(int fd, int command, struct flock *lock)
{
    lock->l_whence = SEEK_SET;
    lock->l_pid = 0;
    if (fcntl(fd, command, lock) == 0)
        return 0;
    if (errno == EINVAL && fcntl(fd, command == F_OFD_GETLK ? F_GETLK : F_SETLK, lock) == 0)
        return 0;
    return err_last();
}

static int lock_own(int fd, enum side side)
{
    struct flock lock = {.l_type = F_RDLCK, .l_start = own_byte(side), .l_len = 1};

    return lock_call(fd, F_OFD_SETLK, &lock);
}

static int open_users(const char *folder, int flags)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/" MEMBER_FILE, folder);
    int fd CLEANUP_CLOSE = -1;
    struct stat found;

    if (length < 0 || (size_t)length >= sizeof(path))
        return -ENAMETOOLONG;
    fd = open(path, O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0600);
    if (fd < 0)
        return err_last();
    if (file_stat_fd(fd, &found) < 0 || !S_ISREG(found.st_mode))
        return -EPROTO;
    return steal_fd(&fd);
}

void member_join(const char *folder)
{
    KEEP_ERRNO;
    int fd CLEANUP_CLOSE = open_users(folder, O_RDONLY);

    if (fd >= 0 && lock_own(fd, MEMBERS) == 0)
        mmap(NULL, MAP_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
}

bool member_first_to_tell(const char *folder)
{
    KEEP_ERRNO;
    int fd CLEANUP_CLOSE = open_users(folder, O_RDWR | O_APPEND);
    struct stat before;
    FSIZE_SCOPE;

    /* Each of several processes that come at once appends a byte, and sees where. */
    return fd >= 0 && file_stat_fd(fd, &before) == 0 && before.st_size == 0 &&
           write(fd, "t", 1) == 1 && lseek(fd, 0, SEEK_CUR) == 1;
}

int member_lead(const char *folder)
{
    KEEP_ERRNO;
    int fd CLEANUP_CLOSE = open_users(folder, O_RDWR | O_CREAT);
    int rc;

    if (fd < 0)
        return fd;
    rc = lock_own(fd, LEADERS);
    return rc < 0 ? rc : steal_fd(&fd);
}

/*
 * The kernel names one lock of a range at a time, not always the first: the part before it is asked
 * again. A lock may be longer than a byte, if another program has made it.
 */
static unsigned count_range(int fd, off_t start, off_t end, off_t own, unsigned most)
{
    unsigned count = 0;

    while (start < end && count < most) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = start, .l_len = end - start};
        off_t first, after;

        if (lock_call(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
            break;
        first = lock.l_start < start ? start : lock.l_start;
        after = lock.l_len == 0 || lock.l_len > end - first ? end : lock.l_start + lock.l_len;
        count += first != own || after != own + 1;
        if (first > start)
            count += count_range(fd, start, first, own, most - count);
        start = after;
    }
    return count;
}

void member_count(const char *folder, unsigned most, struct member_counts *ret_counts)
{
    KEEP_ERRNO;
    int fd CLEANUP_CLOSE = open_users(folder, O_RDONLY);

    *ret_counts = (struct member_counts){0};
    if (fd < 0)
        return;
    ret_counts->members =
        count_range(fd, side_start(MEMBERS), side_start(LEADERS), own_byte(MEMBERS), most);
    ret_counts->leaders =
        count_range(fd, side_start(LEADERS), 2 * side_start(LEADERS), own_byte(LEADERS), most);
}

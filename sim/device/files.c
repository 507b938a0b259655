/*
 * The state file and its companion, the lock file. A lock says whether a process lives: byte `slot`
 * of the lock file, for as long as the process lives and does not exec. Another says whether any
 * process still has a descriptor of an object.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define DESCRIPTOR_BASE (1LL << 41) /* an object's descriptor is at offset DESCRIPTOR_BASE + id */

/* The program may close these descriptors and open other files in their place: the inode tells. */
static struct kept_file {
    char path[4096];
    int fd;
    ino_t inode;
} lock_kept = {.fd = -1}, state_kept = {.fd = -1};

const char *files_path(void)
{
    const char *text = getenv("SIMGPU_STATE");

    if (text && *text)
        snprintf(state_kept.path, sizeof(state_kept.path), "%s", text);
    else
        snprintf(state_kept.path, sizeof(state_kept.path), "/dev/shm/simgpu-%u",
                 (unsigned)getuid());
    snprintf(lock_kept.path, sizeof(lock_kept.path), "%.4080s.lock", state_kept.path);
    return state_kept.path;
}

/* The file's descriptor, opened again if the program closed it; or -errno. */
static int descriptor_of(struct kept_file *kept)
{
    struct stat info;

    if (kept->fd >= 0 && !fstat(kept->fd, &info) && info.st_ino == kept->inode)
        return kept->fd;
    kept->fd = open(kept->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (kept->fd < 0)
        return -errno;
    fchmod(kept->fd, 0666);
    if (!fstat(kept->fd, &info))
        kept->inode = info.st_ino;
    return kept->fd;
}

bool files_usable(void)
{
    return descriptor_of(&lock_kept) >= 0;
}

static struct flock byte_lock(off_t at, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
}

static off_t descriptor_offset(uint64_t id)
{
    return (off_t)(DESCRIPTOR_BASE + (int64_t)id);
}

/* True where an open file other than `fd` has the byte locked. */
static bool locked(int fd, off_t at)
{
    struct flock lock = byte_lock(at, F_WRLCK);

    return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

int files_descriptor_new(const struct sim_object *object, int *ret_fd)
{
    struct flock lock = byte_lock(descriptor_offset(object->id), F_RDLCK);
    int fd = open(state_kept.path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (lseek(fd, lock.l_start, SEEK_SET) < 0 || fcntl(fd, F_OFD_SETLK, &lock)) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

uint64_t files_descriptor_id(int fd)
{
    struct stat info, own;
    off_t at;

    if (fstat(fd, &info) || fstat(descriptor_of(&state_kept), &own) || info.st_dev != own.st_dev ||
        info.st_ino != own.st_ino)
        return 0;
    at = lseek(fd, 0, SEEK_CUR);
    return at > DESCRIPTOR_BASE ? (uint64_t)(at - DESCRIPTOR_BASE) : 0;
}

bool files_descriptor_left(uint64_t id)
{
    return locked(descriptor_of(&state_kept), descriptor_offset(id));
}

/* The open file that asks holds no slot's lock, so the process's own slot counts as alive, too. If
 * the kernel does not answer, every slot does. */
bool files_slot_alive(int slot)
{
    struct flock lock = byte_lock(slot, F_WRLCK);

    return fcntl(descriptor_of(&lock_kept), F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/*
 * Locks a slot for as long as this process lives and does not exec. A mapping, which no child
 * inherits, keeps the open file: a program that closes descriptors it did not open (closefrom)
 * closes no lock.
 */
int files_take_slot(int slot)
{
    struct flock lock = byte_lock(slot, F_WRLCK);
    int fd = open(lock_kept.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *keeper = MAP_FAILED;
    int error;

    if (fd < 0)
        return -errno;
    if (!fcntl(fd, F_OFD_SETLK, &lock))
        keeper = mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0);
    error = keeper == MAP_FAILED ? -errno : 0;
    if (!error)
        madvise(keeper, 1, MADV_DONTFORK);
    close(fd);
    return error;
}

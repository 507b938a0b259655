#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/fsize.h"
#include "base/setting.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>

int file_stat_fd(int fd, struct stat *ret_stat)
{
    struct stat found;

    if (syscall(SYS_fstat, fd, &found) < 0)
        return err_last();
    *ret_stat = found;
    return 0;
}

int file_stat_path(const char *path, int follow_links, struct stat *ret_stat)
{
    struct stat found;

    if (syscall(SYS_newfstatat, AT_FDCWD, path, &found, follow_links ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return err_last();
    *ret_stat = found;
    return 0;
}

/* Makes one folder; an existing one is no error. */
static int make_folder(const char *path, mode_t mode)
{
    struct stat found;
    int rc;

    if (mkdir(path, mode) == 0)
        return chmod(path, mode) < 0 ? err_last() : 0;
    rc = err_last();
    if (rc != -EEXIST)
        return rc;
    rc = file_stat_path(path, 1, &found);
    if (rc < 0)
        return rc;
    return S_ISDIR(found.st_mode) ? 0 : -ENOTDIR;
}

int file_make_folders(const char *path, mode_t mode)
{
    KEEP_ERRNO;
    char part[PATH_MAX];
    size_t length = strlen(path);

    if (length == 0)
        return -ENOENT;
    if (length >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct stat found;
        int rc;

        *slash = '\0';
        /* The process may pass a folder above that it could not make. */
        if (file_stat_path(part, 1, &found) < 0) {
            rc = make_folder(part, mode);
            if (rc < 0)
                return rc;
        }
        *slash = '/';
    }
    return make_folder(part, mode);
}

int file_read_small(const char *path, char *buffer, size_t buffer_bytes, size_t *ret_length)
{
    KEEP_ERRNO;
    int fd CLEANUP_CLOSE = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;

    if (fd < 0)
        return err_last();
    while (length + 1 < buffer_bytes) {
        ssize_t got = read(fd, buffer + length, buffer_bytes - 1 - length);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return err_last();
        }
        if (got == 0)
            break;
        length += (size_t)got;
    }
    buffer[length] = '\0';
    *ret_length = length;
    return 0;
}

int file_temporary_name(const char *path, char *buffer, size_t buffer_bytes)
{
    static atomic_uint counter;
    int length = snprintf(buffer, buffer_bytes, "%s.%ld.%llx%x.tmp", path, (long)getpid(),
                          (unsigned long long)clock_real_ns(), atomic_fetch_add(&counter, 1));

    return length < 0 || (size_t)length >= buffer_bytes ? -ENAMETOOLONG : 0;
}

int file_make_real(int fd, off_t from, off_t bytes)
{
    int error;

    FSIZE_SCOPE;
    do {
        error = posix_fallocate(fd, from, bytes);
    } while (error == EINTR);
    return -error;
}

int file_set_size(int fd, off_t bytes)
{
    FSIZE_SCOPE;
    return ftruncate(fd, bytes) < 0 ? err_last() : 0;
}

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

int file_publish(const char *temporary, const char *path)
{
    int rc;

    if (link(temporary, path) == 0)
        return 0;
    rc = err_last();
    if (rc == -EEXIST)
        return rc;
    if (syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EEXIST ? -EEXIST : rc;
}

static int write_all(int fd, const char *data, size_t bytes)
{
    FSIZE_SCOPE;
    while (bytes > 0) {
        ssize_t put = write(fd, data, bytes);

        if (put < 0) {
            if (errno == EINTR)
                continue;
            return err_last();
        }
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

int file_write_atomic(const char *path, const void *data, size_t bytes, mode_t mode)
{
    KEEP_ERRNO;
    char temporary[PATH_MAX];
    int fd CLEANUP_CLOSE = -1;
    int rc = file_temporary_name(path, temporary, sizeof(temporary));

    if (rc < 0)
        return rc;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_last();
    rc = write_all(fd, data, bytes);
    if (rc == 0 && fchmod(fd, mode) < 0)
        rc = err_last();
    if (rc == 0 && rename(temporary, path) < 0)
        rc = err_last();
    if (rc < 0)
        unlink(temporary);
    return rc;
}

/* *ret_shared: everybody may write to the parent of the folder. */
static int find_runtime_dir(char *buffer, size_t buffer_bytes, bool *ret_shared)
{
    const char *given = setting_text(SETTING_RUNTIME_DIR);
    const char *session = setting_text(SETTING_SESSION_DIR);
    bool shared = false;
    int length;

    if (given) {
        if (given[0] != '/')
            return -EINVAL;
        length = snprintf(buffer, buffer_bytes, "%s", given);
    } else if (geteuid() == 0) {
        length = snprintf(buffer, buffer_bytes, "/run/vgpu");
    } else if (session && session[0] == '/') {
        length = snprintf(buffer, buffer_bytes, "%s/vgpu", session);
    } else {
        length = snprintf(buffer, buffer_bytes, "/tmp/vgpu-%u", (unsigned)geteuid());
        shared = true;
    }
    if (length < 0 || (size_t)length >= buffer_bytes)
        return -ENAMETOOLONG;
    *ret_shared = shared;
    return 0;
}

/* A folder in a shared place must be no link, belong to this user, and be closed to others. */
static int check_shared(const char *path)
{
    struct stat found;
    int rc = file_stat_path(path, 0, &found);

    if (rc < 0)
        return rc;
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022))
        return -EPERM;
    return 0;
}

int runtime_dir(char *buffer, size_t buffer_bytes)
{
    KEEP_ERRNO;
    bool shared;
    int rc = find_runtime_dir(buffer, buffer_bytes, &shared);

    if (rc < 0 || !shared)
        return rc;
    rc = check_shared(buffer);
    return rc == -ENOENT ? 0 : rc;
}

int runtime_dir_make(char *buffer, size_t buffer_bytes)
{
    KEEP_ERRNO;
    bool shared;
    int rc = find_runtime_dir(buffer, buffer_bytes, &shared);

    if (rc < 0)
        return rc;
    rc = file_make_folders(buffer, 0700);
    if (rc < 0)
        return rc;
    return shared ? check_shared(buffer) : 0;
}

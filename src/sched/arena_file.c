#include "sched/arena_file.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/setting.h"
#include "region/layout.h"
#include "region/liveness.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

const char *arena_folder(void)
{
    const char *folder = setting_text(SETTING_ARENA_DIR);

    return folder && folder[0] == '/' ? folder : setting_rows[SETTING_ARENA_DIR].initial;
}

/* The owner, mode and group of files in a folder. */
static void judge_folder(const struct stat *folder, struct arena_place *ret_place)
{
    ret_place->mode = 0600;
    ret_place->group = folder->st_gid;
    ret_place->each = (folder->st_mode & S_IWOTH) && (folder->st_mode & S_ISVTX);
    if (ret_place->each || folder->st_uid != 0)
        return;
    if (folder->st_mode & S_IWOTH)
        ret_place->mode = 0666;
    else if (folder->st_mode & S_IWGRP)
        ret_place->mode = 0660;
}

int arena_place_find(const char *uuid, uid_t uid, struct arena_place *ret_place)
{
    const char *folder = arena_folder();
    char number[16] = "";
    struct stat st;
    int length, rc;

    if (!*uuid || strchr(uuid, '/'))
        return -EINVAL;
    rc = file_stat_path(folder, 1, &st);
    if (rc < 0)
        return rc;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    judge_folder(&st, ret_place);
    if (ret_place->each)
        snprintf(number, sizeof(number), "%u-", (unsigned)uid);
    length =
        snprintf(ret_place->path, sizeof(ret_place->path), "%s/vgpu-%s%s", folder, number, uuid);
    return length < 0 || (size_t)length >= sizeof(ret_place->path) ? -ENAMETOOLONG : 0;
}

static bool is_arena(int fd, const struct stat *st)
{
    struct arena_layout *layout;
    uint64_t magic;
    uint32_t version, bytes;

    return st->st_size >= (off_t)sizeof(*layout) &&
           pread(fd, &magic, sizeof(magic), offsetof(struct arena_layout, magic)) ==
               (ssize_t)sizeof(magic) &&
           pread(fd, &version, sizeof(version), offsetof(struct arena_layout, version)) ==
               (ssize_t)sizeof(version) &&
           pread(fd, &bytes, sizeof(bytes), offsetof(struct arena_layout, layout_bytes)) ==
               (ssize_t)sizeof(bytes) &&
           magic == ARENA_MAGIC && version == ARENA_VERSION && bytes == sizeof(*layout);
}

int arena_file_check(int fd, const struct arena_place *place, uid_t owner, struct stat *ret_stat)
{
    int rc = file_stat_fd(fd, ret_stat);

    if (rc < 0)
        return rc;
    if (!S_ISREG(ret_stat->st_mode))
        return -EPROTO;
    if (place->mode == 0600 && ret_stat->st_uid != owner)
        return -EPERM;
    if ((ret_stat->st_mode & 0777 & ~place->mode) ||
        (place->mode == 0660 && ret_stat->st_gid != place->group))
        return -EPERM;
    return is_arena(fd, ret_stat) ? 0 : -EPROTO;
}

/* Whether another process has a page of the file. Unknown counts as yes. */
static bool arena_file_used(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE_BASE};

    return fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* Sets mode and group by hand, whatever the program's umask and groups are. */
static int fill_file(int fd, const struct arena_place *place, const char *uuid)
{
    struct arena_layout *layout;
    struct stat st;
    int rc = file_stat_fd(fd, &st);

    if (rc < 0)
        return rc;
    if (place->mode == 0660 && st.st_gid != place->group && fchown(fd, (uid_t)-1, place->group) < 0)
        return err_last();
    rc = fchmod(fd, place->mode) < 0 ? err_last() : file_set_size(fd, sizeof(*layout));
    if (rc == 0)
        rc = file_make_real(fd, 0, offsetof(struct arena_layout, page));
    if (rc < 0)
        return rc;
    layout =
        mmap(NULL, offsetof(struct arena_layout, page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (layout == MAP_FAILED)
        return err_last();
    layout->version = ARENA_VERSION;
    layout->layout_bytes = sizeof(*layout);
    snprintf(layout->uuid, sizeof(layout->uuid), "%s", uuid);
    atomic_store_explicit(&layout->magic, ARENA_MAGIC, memory_order_release);
    munmap(layout, offsetof(struct arena_layout, page));
    return 0;
}

/* Writes the file under another name, then renames it: a file that is mapped never changes its
 * size. */
static int make_file(const struct arena_place *place, const char *uuid, bool replace)
{
    char temporary[PATH_MAX];
    int fd CLEANUP_CLOSE = -1;
    int rc = file_temporary_name(place->path, temporary, sizeof(temporary));

    if (rc < 0)
        return rc;
    fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_last();
    rc = fill_file(fd, place, uuid);
    if (rc == 0 && replace)
        rc = rename(temporary, place->path) < 0 ? err_last() : 0;
    else if (rc == 0)
        rc = file_publish(temporary, place->path);
    if (rc < 0 || !replace)
        unlink(temporary);
    return rc;
}

/* Whether this user may replace the file at the place, which cannot be used (`rc`). */
static bool may_replace(int fd, const struct arena_place *place, const struct stat *st, int rc)
{
    uid_t user = geteuid();

    if (rc != -EPROTO && rc != -EPERM)
        return false;
    /* By its name it is this user's, whichever user made it. The folder lets only root rename over
     * it. */
    if (place->mode == 0600 && st->st_uid != user && !(place->each && user == 0))
        return false;
    /* A process that has mapped a file that is too short is lost already. */
    return st->st_size < (off_t)sizeof(struct arena_layout) || !arena_file_used(fd);
}

static int open_again(const char *path, const struct stat *st)
{
    int fd CLEANUP_CLOSE = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat now;

    if (fd < 0)
        return err_last();
    if (file_stat_fd(fd, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return -ESTALE;
    return steal_fd(&fd);
}

/*
 * One process replaces the file: the one that holds the old file's lock. -EAGAIN: one has; look
 * again.
 */
static int replace_file(const struct arena_place *place, const char *uuid, const struct stat *st)
{
    const struct timespec nap = {.tv_nsec = ARENA_FILE_NAP_NS};
    int fd CLEANUP_CLOSE = open_again(place->path, st);
    struct stat now;
    int rc;

    if (fd < 0)
        return fd == -ESTALE || fd == -ENOENT ? -EAGAIN : fd;
    rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? err_last() : 0;
    if (rc == -EWOULDBLOCK)
        nanosleep(&nap, NULL);
    if (rc < 0)
        return rc;
    if (file_stat_path(place->path, 0, &now) < 0 || now.st_dev != st->st_dev ||
        now.st_ino != st->st_ino)
        return -EAGAIN;
    rc = make_file(place, uuid, true);
    return rc == 0 ? -EAGAIN : rc;
}

static int get_or_make(const struct arena_place *place, const char *uuid, bool make,
                       struct liveness **ret_liveness, int *ret_fd)
{
    struct stat st;
    int rc = liveness_get(place->path, ret_liveness, ret_fd);

    if (rc == -ENOENT && make) {
        rc = make_file(place, uuid, false);
        return rc == 0 || rc == -EEXIST ? -EAGAIN : rc;
    }
    if (rc < 0)
        return rc == -EACCES && place->mode == 0600 ? -EPERM : rc;
    rc = arena_file_check(*ret_fd, place, geteuid(), &st);
    if (rc == 0)
        return 0;
    if (make && may_replace(*ret_fd, place, &st, rc))
        rc = replace_file(place, uuid, &st);
    liveness_put(*ret_liveness);
    return rc;
}

int arena_file_get(const struct arena_place *place, const char *uuid, bool make,
                   struct liveness **ret_liveness, int *ret_fd)
{
    int rc = -EAGAIN;

    for (unsigned i = 0; i < ARENA_FILE_TRIES && rc == -EAGAIN; i++)
        rc = get_or_make(place, uuid, make, ret_liveness, ret_fd);
    return rc;
}

int arena_check(const char *uuid)
{
    KEEP_ERRNO;
    struct arena_place place;
    struct stat st;
    int fd CLEANUP_CLOSE = -1;
    int rc = arena_place_find(uuid, geteuid(), &place);

    if (rc < 0)
        return rc;
    fd = open(place.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return access(arena_folder(), W_OK | X_OK) < 0 ? err_last() : 0;
    if (fd < 0)
        return errno == EACCES && place.mode == 0600 ? -EPERM : err_last();
    rc = arena_file_check(fd, &place, geteuid(), &st);
    if (rc < 0 && S_ISREG(st.st_mode) && may_replace(fd, &place, &st, rc))
        return ARENA_BROKEN;
    return rc;
}

const char *arena_error_text(int rc, char *buffer, size_t bytes)
{
    switch (rc) {
    case -EUSERS:
        return "all places of its arena are taken";
    case -EPROTO:
        return "its arena is no file, or in use by another version of vgpu";
    case -EPERM:
        return "its arena is another user's, or others may write it";
    default:
        return err_text(rc, buffer, bytes);
    }
}

#include "region/region.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "region/internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

#define CREATE_BOUND_NS (2 * NS_PER_S)
#define CREATE_NAP_NS   (2 * NS_PER_MS)

const char *vgpu_kind_name(enum vgpu_kind kind)
{
    static const char *const names[] = {
#define X(id, name, in_nvml) name,
        VGPU_KIND_LIST(X)
#undef X
    };

    return (unsigned)kind < VGPU_KINDS ? names[kind] : "?";
}

bool vgpu_kind_in_nvml(enum vgpu_kind kind)
{
    static const bool in_nvml_figure[] = {
#define X(id, name, in_nvml) in_nvml,
        VGPU_KIND_LIST(X)
#undef X
    };

    return (unsigned)kind < VGPU_KINDS && in_nvml_figure[kind];
}

const char *vgpu_tier_name(enum vgpu_tier tier)
{
    static const char *const names[] = {
#define X(id, name) name,
        VGPU_TIER_LIST(X)
#undef X
    };

    return (unsigned)tier < VGPU_TIERS ? names[tier] : "?";
}

const char *vgpu_work_name(enum vgpu_work work)
{
    static const char *const names[] = {
#define X(id, name, unit) name,
        VGPU_WORK_LIST(X)
#undef X
    };

    return (unsigned)work < VGPU_WORKS ? names[work] : "?";
}

bool vgpu_work_is_time(enum vgpu_work work)
{
    enum { BYTES, NANOSECONDS };
    static const uint8_t units[] = {
#define X(id, name, unit) unit,
        VGPU_WORK_LIST(X)
#undef X
    };

    return (unsigned)work < VGPU_WORKS && units[work] == NANOSECONDS;
}

/* Maps the file from its beginning to the region's end. The caller has checked its length. */
static int map_layout(int fd, off_t base_offset, struct vgpu_region *region)
{
    size_t bytes = (size_t)base_offset + sizeof(struct region_layout);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return err_last();
    region->map = map;
    region->map_bytes = bytes;
    region->layout = (struct region_layout *)((char *)map + base_offset);
    return 0;
}

/* The slots and all behind them are zero already. Writing them would only take real memory. */
static void fill_layout(struct region_layout *layout, const struct vgpu_limits *limits)
{
    memset(layout, 0, offsetof(struct region_layout, slot));
    layout->version = REGION_VERSION;
    layout->layout_bytes = sizeof(*layout);
    layout->created_ns = clock_real_ns();
    region_store_limits(layout, limits);
    atomic_store_explicit(&layout->magic, REGION_MAGIC, memory_order_release);
}

bool region_layout_valid(const struct region_layout *layout)
{
    return atomic_load_explicit(&layout->magic, memory_order_acquire) == REGION_MAGIC &&
           layout->version == REGION_VERSION && layout->layout_bytes == sizeof(*layout);
}

static bool long_enough(int fd, off_t base_offset)
{
    struct stat st;

    return file_stat_fd(fd, &st) == 0 &&
           st.st_size >= base_offset + (off_t)sizeof(struct region_layout);
}

static void free_region(struct vgpu_region *region)
{
    if (region->map)
        munmap(region->map, region->map_bytes);
    if (region->liveness)
        liveness_put(region->liveness);
    free(region);
}

static void cleanup_region(struct vgpu_region **region)
{
    if (*region)
        free_region(*region);
}

/* Opens the file, without a map. */
static int open_file(const char *path, off_t base_offset, struct vgpu_region **ret_region,
                     int *ret_fd)
{
    struct vgpu_region *region;
    int rc;

    if (base_offset < 0 || base_offset % 64)
        return -EINVAL;
    region = calloc(1, sizeof(*region));
    if (!region)
        return -ENOMEM;
    rc = liveness_get(path, &region->liveness, ret_fd);
    if (rc < 0) {
        free(region);
        return rc;
    }
    *ret_region = region;
    return 0;
}

int region_open(const char *path, off_t base_offset, struct vgpu_region **ret_region)
{
    KEEP_ERRNO;
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    int fd, rc = open_file(path, base_offset, &region, &fd);

    if (rc < 0)
        return rc;
    if (!long_enough(fd, base_offset))
        return -EPROTO;
    rc = map_layout(fd, base_offset, region);
    if (rc < 0)
        return rc;
    if (!region_layout_valid(region->layout))
        return -EPROTO;
    *ret_region = region;
    region = NULL;
    return 0;
}

/* Writes a whole file under another name and links it. -EEXIST: another process was faster. */
static int make_file(const char *path, off_t base_offset, const struct vgpu_limits *limits)
{
    /* A region at an offset is in a file that containers and their users share. */
    mode_t mode = base_offset ? 0666 : 0600;
    char temporary[PATH_MAX];
    struct vgpu_region region = {0};
    int fd CLEANUP_CLOSE = -1;
    int rc = file_temporary_name(path, temporary, sizeof(temporary));

    if (rc < 0)
        return rc;
    fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_last();
    /* Sets the mode by hand, whatever the program's umask is. */
    rc = fchmod(fd, mode) < 0
             ? err_last()
             : file_make_real(fd, 0, base_offset + (off_t)sizeof(struct region_layout));
    if (rc == 0)
        rc = map_layout(fd, base_offset, &region);
    if (rc == 0) {
        fill_layout(region.layout, limits);
        munmap(region.map, region.map_bytes);
        rc = file_publish(temporary, path);
    }
    unlink(temporary);
    return rc;
}

/*
 * flock with a bound, for any user who may open the file may hold it for ever. Returns whether it
 * is held. make_file() does without it, so that 300 starters make one file and not 300. fill_file()
 * needs it.
 */
static bool flock_bounded(int fd)
{
    uint64_t end_ns = clock_ns() + CREATE_BOUND_NS;
    struct timespec nap = {.tv_nsec = CREATE_NAP_NS};

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || clock_ns() > end_ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

static int open_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;

    if (!slash)
        return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (length >= sizeof(folder))
        return -1;
    memcpy(folder, path, length);
    folder[length] = '\0';
    return open(length ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Whether the file has a region of another version, or none, that no process uses any more. */
static bool outlived(const struct vgpu_region *region)
{
    if (region_layout_valid(region->layout))
        return false;
    for (unsigned id = 1; id < LOCK_IDS; id++)
        if (liveness_check(region->liveness, id, NULL) != 0)
            return false;
    return true;
}

/* Makes the region in place, in an existing foreign file without one. Writes the magic last. */
static int fill_file(const char *path, const struct foreign_format *format,
                     const struct vgpu_limits *limits, bool *ret_created)
{
    off_t base_offset = format->base_offset;
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    int fd, rc = open_file(path, base_offset, &region, &fd);

    if (rc < 0)
        return rc;
    if (!format->accepts(fd))
        return -EPROTO;
    if (!flock_bounded(fd))
        return -ETIMEDOUT;
    if (!long_enough(fd, base_offset))
        rc = file_make_real(fd, 0, base_offset + (off_t)sizeof(struct region_layout));
    if (rc == 0)
        rc = map_layout(fd, base_offset, region);
    if (rc == 0 && (load_relaxed(&region->layout->magic) == 0 || outlived(region))) {
        if (load_relaxed(&region->layout->magic) != 0)
            memset(region->layout->slot, 0,
                   sizeof(*region->layout) - offsetof(struct region_layout, slot));
        fill_layout(region->layout, limits);
        *ret_created = true;
    }
    flock(fd, LOCK_UN);
    return rc;
}

/*
 * The second name of a foreign file, "<folder>/.<file>.vgpu": a cleaner of /tmp knows the first
 * only, and the other program ignores the second. A user with the right to write to the folder
 * can put another file there, as at the first name.
 */
static int second_name(const char *path, char *buffer, size_t buffer_bytes)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    int length = snprintf(buffer, buffer_bytes, "%.*s.%s.vgpu", (int)(file - path), path, file);

    return length < 0 || (size_t)length >= buffer_bytes ? -ENAMETOOLONG : 0;
}

static bool file_in_use(const char *path, off_t base_offset)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;

    return region_open(path, base_offset, &region) == 0 && region_in_use(region);
}

/*
 * Gives a foreign file its name back if it was removed, or replaced by one that no process uses,
 * while processes of its instance run. Else newcomers would begin with a full quota. Afterwards the
 * second name is the same file's, or does not exist, or both files are in use.
 */
static void restore_name(const char *path, off_t base_offset)
{
    char second[PATH_MAX], temporary[PATH_MAX];
    struct stat found, kept;
    bool removed;

    if (second_name(path, second, sizeof(second)) < 0 || file_stat_path(second, 0, &kept) < 0)
        return;
    removed = file_stat_path(path, 0, &found) < 0;
    if (!removed && found.st_dev == kept.st_dev && found.st_ino == kept.st_ino)
        return;
    if (!file_in_use(second, base_offset)) {
        unlink(second);
    } else if (removed) {
        (void)!link(second, path);
    } else if (!file_in_use(path, base_offset) &&
               file_temporary_name(path, temporary, sizeof(temporary)) == 0 &&
               link(second, temporary) == 0 && rename(temporary, path) < 0) {
        unlink(temporary);
    }
}

static void keep_second_name(const char *path)
{
    char second[PATH_MAX];

    /* Some file systems have no hard links, and some folders no room for the caller's. */
    if (second_name(path, second, sizeof(second)) == 0)
        (void)!link(path, second);
}

int region_create(const char *path, const struct foreign_format *format,
                  const struct vgpu_limits *limits, struct vgpu_region **ret_region,
                  bool *ret_created)
{
    KEEP_ERRNO;
    off_t base_offset = format ? format->base_offset : 0;
    int folder CLEANUP_CLOSE = -1;
    bool created = false;
    int rc;

    if (format)
        restore_name(path, base_offset);
    rc = region_open(path, base_offset, ret_region);
    if (rc == -ENOENT) {
        folder = open_folder_of(path);
        if (folder >= 0)
            flock_bounded(folder);
        rc = region_open(path, base_offset, ret_region);
    }
    if (rc == -ENOENT) {
        rc = make_file(path, base_offset, limits);
        created = rc == 0;
        if (rc == 0 || rc == -EEXIST)
            rc = region_open(path, base_offset, ret_region);
    }
    if (rc == -EPROTO && format) {
        rc = fill_file(path, format, limits, &created);
        if (rc == 0)
            rc = region_open(path, base_offset, ret_region);
    }
    if (rc == 0 && format)
        keep_second_name(path);
    if (rc == 0)
        *ret_created = created;
    return rc;
}

void region_mapping(const struct vgpu_region *region, void **ret_base, size_t *ret_bytes)
{
    *ret_base = region->map;
    *ret_bytes = region->map_bytes;
}

const char *region_unlinked(struct vgpu_region *region)
{
    return region->liveness ? liveness_unlinked(region->liveness) : NULL;
}

void region_close(struct vgpu_region *region)
{
    KEEP_ERRNO;

    if (!region)
        return;
    slots_release_all(region);
    free_region(region);
}

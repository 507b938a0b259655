#include "guard/notify/device.h"

#include "base/err.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Modules ask for any free major number; the line of a character device ends with `line_end`. */
static unsigned find_major(const char *line_end)
{
    char text[8192];
    const char *line;
    size_t length;

    if (file_read_small("/proc/devices", text, sizeof(text), &length) < 0)
        return 0;
    line = strstr(text, line_end);
    while (line && line > text && line[-1] != '\n')
        line--;
    return line ? (unsigned)strtoul(line, NULL, 10) : 0;
}

static int stat_node(const char *folder, const char *name, struct stat *ret_stat)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", folder ? folder : "/dev", name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    return file_stat_path(path, 1, ret_stat);
}

static struct device_node node_of(const struct stat *st)
{
    return (struct device_node){.file_system = st->st_dev, .inode = st->st_ino};
}

static void look(const char *folder, const char *name, struct device_node *ret_node)
{
    struct stat st;

    if (stat_node(folder, name, &st) == 0 && S_ISREG(st.st_mode))
        *ret_node = node_of(&st);
}

static void gpu_name(const struct devices *devices, unsigned index, char ret_name[32])
{
    snprintf(ret_name, 32, "%s%u", devices->names->gpu, index);
}

void devices_init(struct devices *devices, const struct device_names *names, const char *folder)
{
    char name[32];

    *devices = (struct devices){.names = names, .folder = folder};
    devices->uvm_major = find_major(names->uvm_line);
    devices->caps_major = find_major(names->caps_line);
    if (!folder)
        return;
    look(folder, names->ctl, &devices->ctl);
    look(folder, names->uvm, &devices->uvm);
    for (unsigned i = 0; i < DEVICE_GPUS_MAX; i++) {
        gpu_name(devices, i, name);
        look(folder, name, &devices->gpu[i]);
    }
}

static int same(const struct device_node *node, const struct stat *st)
{
    return node->inode && node->inode == st->st_ino && node->file_system == st->st_dev;
}

static enum device_kind kind_of_file(const struct devices *devices, const struct stat *st)
{
    if (same(&devices->ctl, st))
        return DEVICE_CTL;
    if (same(&devices->uvm, st))
        return DEVICE_UVM;
    for (unsigned i = 0; i < DEVICE_GPUS_MAX; i++) {
        if (same(&devices->gpu[i], st))
            return DEVICE_GPU;
    }
    return DEVICE_OTHER;
}

static enum device_kind kind_of(struct devices *devices, const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return kind_of_file(devices, st);
    if (!S_ISCHR(st->st_mode))
        return DEVICE_OTHER;
    if (major(st->st_rdev) == devices->names->major)
        return minor(st->st_rdev) == devices->names->ctl_minor ? DEVICE_CTL : DEVICE_GPU;
    if (!devices->uvm_major)
        devices->uvm_major =
            find_major(devices->names->uvm_line); /* the module may have been loaded since */
    return devices->uvm_major && major(st->st_rdev) == devices->uvm_major && minor(st->st_rdev) == 0
               ? DEVICE_UVM
               : DEVICE_OTHER;
}

enum device_kind devices_kind(struct devices *devices, int fd)
{
    struct stat st;

    return file_stat_fd(fd, &st) < 0 ? DEVICE_OTHER : kind_of(devices, &st);
}

static int stat_at(pid_t tid, int fd, struct stat *ret_stat)
{
    char path[64];
    struct statx found;
    struct stat st = {0};

    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)tid, fd);
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &found) < 0)
        return errno == ENOENT ? -EBADF : err_last();
    st.st_mode = found.stx_mode;
    st.st_ino = found.stx_ino;
    st.st_dev = makedev(found.stx_dev_major, found.stx_dev_minor);
    st.st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor);
    *ret_stat = st;
    return 0;
}

int devices_kind_at(struct devices *devices, pid_t tid, int fd, enum device_kind *ret_kind,
                    struct device_node *ret_node)
{
    struct stat st;
    int rc = stat_at(tid, fd, &st);

    if (rc < 0)
        return rc;
    *ret_kind = kind_of(devices, &st);
    if (ret_node)
        *ret_node = node_of(&st);
    return 0;
}

static int is_capability(struct devices *devices, const struct stat *st)
{
    if (!devices->caps_major)
        devices->caps_major = find_major(devices->names->caps_line);
    return S_ISCHR(st->st_mode) && devices->caps_major && major(st->st_rdev) == devices->caps_major;
}

int devices_is_capability(struct devices *devices, int fd)
{
    struct stat st;

    return file_stat_fd(fd, &st) == 0 && is_capability(devices, &st);
}

int devices_is_capability_at(struct devices *devices, pid_t tid, int fd)
{
    struct stat st;

    return stat_at(tid, fd, &st) == 0 && is_capability(devices, &st);
}

int device_node_of(int fd, struct device_node *ret_node)
{
    struct stat st;
    int rc = file_stat_fd(fd, &st);

    if (rc == 0)
        *ret_node = node_of(&st);
    return rc;
}

static bool node_at(const struct devices *devices, const char *name, struct device_node *ret_node)
{
    struct stat st;

    if (stat_node(devices->folder, name, &st) < 0)
        return false;
    *ret_node = node_of(&st);
    return true;
}

void devices_managed_node(const struct devices *devices, struct device_node *ret_node)
{
    node_at(devices, devices->names->uvm, ret_node);
}

unsigned devices_nodes(const struct devices *devices,
                       struct device_node ret_nodes[DEVICE_NODES_MAX])
{
    unsigned count = 0;
    char name[32];

    count += node_at(devices, devices->names->ctl, &ret_nodes[count]);
    count += node_at(devices, devices->names->uvm, &ret_nodes[count]);
    for (unsigned i = 0; i < DEVICE_GPUS_MAX; i++) {
        gpu_name(devices, i, name);
        count += node_at(devices, name, &ret_nodes[count]);
    }
    return count;
}

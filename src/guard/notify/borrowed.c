/*
 * The driver looks for some descriptors in the process that makes a call, which is the supervisor.
 * So the supervisor borrows them from the caller for the time of the call, and nothing more.
 *
 * GPUs: the driver makes a device only for a process that has the GPU's node open (nv.c,
 * nv_is_gpu_accessible()). That is how the nodes' permissions and the device cgroup limit access.
 * Capabilities of nvidia-caps: the driver makes sessions and instances of MIG only for a process
 * that names one (nv-caps.c).
 */
#include "guard/notify/borrowed.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool has(const struct borrowed *borrowed, const struct device_node *node)
{
    for (unsigned i = 0; i < borrowed->count; i++) {
        if (borrowed->node[i].inode == node->inode &&
            borrowed->node[i].file_system == node->file_system)
            return true;
    }
    return false;
}

static int get(struct notify *notify, pid_t tid, int its_fd)
{
    int fd;

    if (task_file(&notify->tasks, tid, its_fd, &fd) < 0)
        return -1;
    if (descriptors_left_for_call(&notify->descriptors, fd))
        return fd;
    close(fd);
    return -1;
}

/* Borrows a descriptor if it is a GPU that is not borrowed yet: libcuda opens the same one many
 * times. The caller may put another file there before it is taken, so that is checked again. */
static void take(struct notify *notify, pid_t tid, int its_fd, struct borrowed *borrowed)
{
    struct device_node node;
    enum device_kind kind;
    int fd;

    if (devices_kind_at(&notify->devices, tid, its_fd, &kind, &node) < 0 || kind != DEVICE_GPU ||
        has(borrowed, &node))
        return;
    fd = get(notify, tid, its_fd);
    if (fd < 0)
        return;
    if (devices_kind(&notify->devices, fd) != DEVICE_GPU || device_node_of(fd, &node) < 0 ||
        has(borrowed, &node)) {
        close(fd);
        return;
    }
    borrowed->node[borrowed->count] = node;
    borrowed->fd[borrowed->count++] = fd;
}

void borrow_gpus(struct notify *notify, pid_t tid, struct borrowed *ret_borrowed)
{
    char path[48];
    struct dirent *entry;
    DIR *folder;

    ret_borrowed->count = 0;
    snprintf(path, sizeof(path), "/proc/%ld/fd",
             (long)tid); /* also of one that is not the first of its process */
    folder = opendir(path);
    while (folder && ret_borrowed->count < DEVICE_GPUS_MAX && (entry = readdir(folder))) {
        if (entry->d_name[0] != '.')
            take(notify, tid, atoi(entry->d_name), ret_borrowed);
    }
    if (folder)
        closedir(folder);
}

/* Another file must not even be closed here: its file system could make close() wait. */
void borrow_capability(struct notify *notify, pid_t tid, uint64_t *number,
                       struct borrowed *ret_borrowed)
{
    int its_fd = *number <= INT32_MAX ? (int)*number : -1, fd = -1;

    ret_borrowed->count = 0;
    if (its_fd >= 0 && devices_is_capability_at(&notify->devices, tid, its_fd))
        fd = get(notify, tid, its_fd);
    *number = UINT64_MAX; /* it has none */
    if (fd < 0)
        return;
    ret_borrowed->fd[ret_borrowed->count++] = fd;
    if (devices_is_capability(&notify->devices, fd))
        *number = (uint64_t)fd;
}

void borrowed_close(struct borrowed *borrowed)
{
    while (borrowed->count > 0)
        close(borrowed->fd[--borrowed->count]);
}

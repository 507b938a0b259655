/*
 * What a caller has open, for as long as a call is made for it: the driver looks for it where the
 * call comes from. So what the caller has, and no more, is had here as well.
 *
 * Cards: a device is made only for who has the card's node among its descriptors (nv.c,
 * nv_is_gpu_accessible()), which is how access to cards is a matter of the nodes' permissions and
 * of the device cgroup. A capability of nvidia-caps: sessions and the instances of MIG are made for
 * who shows it (nv-caps.c).
 */
#include "guard/guard_internal.h"

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

static int get(struct guard *guard, pid_t tid, int its_fd)
{
    int fd;

    if (task_file(&guard->tasks, tid, its_fd, &fd) < 0)
        return -1;
    if (descriptors_left_for_call(&guard->descriptors, fd))
        return fd;
    close(fd);
    return -1;
}

/* One descriptor of the caller's, if it is a card that is not had yet: most that libcuda opens are
 * of the same one. It may be another one by the time that it is taken. */
static void take(struct guard *guard, pid_t tid, int its_fd, struct borrowed *borrowed)
{
    struct device_node node;
    enum device_kind kind;
    int fd;

    if (devices_kind_at(&guard->devices, tid, its_fd, &kind, &node) < 0 || kind != DEVICE_GPU ||
        has(borrowed, &node))
        return;
    fd = get(guard, tid, its_fd);
    if (fd < 0)
        return;
    if (devices_kind(&guard->devices, fd) != DEVICE_GPU || device_node_of(fd, &node) < 0 ||
        has(borrowed, &node)) {
        close(fd);
        return;
    }
    borrowed->node[borrowed->count] = node;
    borrowed->fd[borrowed->count++] = fd;
}

void borrow_gpus(struct guard *guard, pid_t tid, struct borrowed *ret_borrowed)
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
            take(guard, tid, atoi(entry->d_name), ret_borrowed);
    }
    if (folder)
        closedir(folder);
}

/* A file of anybody else's must not even be closed here: who has it may keep the one who closes it
 * waiting. */
void borrow_capability(struct guard *guard, pid_t tid, uint64_t *number,
                       struct borrowed *ret_borrowed)
{
    int its_fd = *number <= INT32_MAX ? (int)*number : -1, fd = -1;

    ret_borrowed->count = 0;
    if (its_fd >= 0 && devices_is_capability_at(&guard->devices, tid, its_fd))
        fd = get(guard, tid, its_fd);
    *number = UINT64_MAX; /* it has none */
    if (fd < 0)
        return;
    ret_borrowed->fd[ret_borrowed->count++] = fd;
    if (devices_is_capability(&guard->devices, fd))
        *number = (uint64_t)fd;
}

void borrowed_close(struct borrowed *borrowed)
{
    while (borrowed->count > 0)
        close(borrowed->fd[--borrowed->count]);
}

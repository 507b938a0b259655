/*
 * Which of NVIDIA's devices an open file is. Told by device number: a path says nothing, links and
 * mounts are the program's. In a folder whose nodes are regular files, which is how a stand-in for
 * the driver makes them, they are told by file system and inode.
 */
#ifndef VGPU_GUARD_DEVICE_H
#define VGPU_GUARD_DEVICE_H

#include <stdint.h>
#include <sys/types.h>

enum device_kind {
    DEVICE_OTHER,  /* nothing of NVIDIA's */
    DEVICE_CTL,    /* nvidiactl */
    DEVICE_GPU,    /* nvidia0 ... */
    DEVICE_UVM,    /* nvidia-uvm */
    DEVICE_DMABUF, /* no device: what RM_ESC_EXPORT_DMABUF makes; devices_kind() does not know it */
};

#define DEVICE_GPUS_MAX 32

/* What /proc/PID/maps tells mapped files by, too. */
struct device_node {
    dev_t file_system;
    ino_t inode; /* 0: there is no such node */
};

/* One thread at a time. */
struct devices {
    unsigned uvm_major, caps_major;                    /* 0: not known (yet) */
    struct device_node ctl, uvm, gpu[DEVICE_GPUS_MAX]; /* those that are regular files */
};

/* `folder`: where the nodes are; NULL: /dev. Nodes that are missing may appear later, as real
 * devices. */
void devices_init(struct devices *devices, const char *folder);

/* What an open file is. */
enum device_kind devices_kind(struct devices *devices, int fd);

/*
 * The same of a descriptor of another thread, without taking it: to close a duplicate of a file
 * that is not the driver's may do anything, as its file system likes. Its node, too, unless
 * `ret_node` is NULL. -EBADF: it has none; -errno: it cannot be looked at.
 */
int devices_kind_at(struct devices *devices, pid_t tid, int fd, enum device_kind *ret_kind,
                    struct device_node *ret_node);

/* Whether it is one of nvidia-caps: who has it open may be given an instance of MIG, or a session.
 * As the two above. */
int devices_is_capability(struct devices *devices, int fd);
int devices_is_capability_at(struct devices *devices, pid_t tid, int fd);

/* The node of an open file, and of one in a folder (NULL: /dev) that nobody need have opened. 0 or
 * -errno. */
int device_node_of(int fd, struct device_node *ret_node);
int device_node_at(const char *folder, const char *name, struct device_node *ret_node);

#endif

/*
 * Which of the driver's devices an open file is. The device number tells: a path says nothing, as
 * links and mounts are the program's. A stand-in for the driver makes regular files in a folder
 * instead, which file system and inode tell apart.
 */
#ifndef VGPU_GUARD_DEVICE_H
#define VGPU_GUARD_DEVICE_H

#include <stdint.h>
#include <sys/types.h>

enum device_kind {
    DEVICE_OTHER,  /* none of the driver's */
    DEVICE_CTL,    /* the control device */
    DEVICE_GPU,    /* a GPU's */
    DEVICE_UVM,    /* the one whose mappings are managed memory */
    DEVICE_DMABUF, /* no device, but a file that the driver makes; devices_kind() does not know it
                    */
};

#define DEVICE_GPUS_MAX  32
#define DEVICE_NODES_MAX (2 + DEVICE_GPUS_MAX)

/* How a driver names its devices. */
struct device_names {
    const char *ctl, *uvm, *gpu;      /* nodes; `gpu` is followed by a number */
    unsigned major, ctl_minor;        /* of the control device and the GPUs */
    const char *uvm_line, *caps_line; /* ends of lines in /proc/devices: " name\n" */
};

/* What /proc/PID/maps tells mapped files by, too. */
struct device_node {
    dev_t file_system;
    ino_t inode; /* 0: there is no such node */
};

/* One thread at a time. */
struct devices {
    const struct device_names *names;
    const char *folder;
    unsigned uvm_major, caps_major;                    /* 0: not known (yet) */
    struct device_node ctl, uvm, gpu[DEVICE_GPUS_MAX]; /* those that are regular files */
};

/* `names` and `folder` (where the nodes are; NULL: /dev) have to outlive it. Nodes that are missing
 * may appear later, as real devices. */
void devices_init(struct devices *devices, const struct device_names *names, const char *folder);

/* What an open file is. */
enum device_kind devices_kind(struct devices *devices, int fd);

/*
 * The same of a descriptor of another thread, without taking it: to close a duplicate of a file
 * that is not the driver's may do anything, as its file system likes. Its node, too, unless
 * `ret_node` is NULL. -EBADF: it has none; -errno: it cannot be looked at.
 */
int devices_kind_at(struct devices *devices, pid_t tid, int fd, enum device_kind *ret_kind,
                    struct device_node *ret_node);

/* Whether it is a capability: a file that gives its holder an instance of MIG, or a session. As the
 * two above. */
int devices_is_capability(struct devices *devices, int fd);
int devices_is_capability_at(struct devices *devices, pid_t tid, int fd);

/* The node of an open file. 0 or -errno. */
int device_node_of(int fd, struct device_node *ret_node);
/* The node of managed memory, which no process need have opened. Left alone if there is none. */
void devices_managed_node(const struct devices *devices, struct device_node *ret_node);
/* All nodes that there are; returns how many. */
unsigned devices_nodes(const struct devices *devices,
                       struct device_node ret_nodes[DEVICE_NODES_MAX]);

#endif

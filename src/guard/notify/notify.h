/*
 * The layer of the supervisor that knows no GPU: calls that wait for an answer, the processes that
 * make them, and the driver's files that these have open. The layers above decide what they mean.
 *
 * Threads: the trap thread (trap.c), the watch thread (watch.c), the control thread
 * (control_thread.c), and one for the share of each device (nvidia/vdevs.c).
 *
 * Locks, in the order in which they are taken:
 *   notify->lock   processes, files, tasks, and all that the layers above keep about them. The trap
 *                  thread holds it from before it executes a call until the call is noted, so for
 *                  as long as the driver takes; the watch thread waits meanwhile.
 *   channels.lock  the channels and the duplicates by which they are switched; held during the
 *                  driver's call.
 */
#ifndef VGPU_GUARD_NOTIFY_H
#define VGPU_GUARD_NOTIFY_H

#include "base/mutex.h"
#include "account/ledger.h"
#include "guard/notify/descriptors.h"
#include "guard/notify/device.h"
#include "guard/notify/task.h"

#include <stdatomic.h>

#define NOTIFY_PROCESSES_MAX 512
#define NOTIFY_FILES_MAX     2048

/* A process that has used the driver. */
struct guard_process {
    pid_t pid;      /* 0: the entry is free */
    uint32_t owner; /* its number in the object model; never used twice */
    int pidfd;
    int memory; /* /proc/PID/mem: the address space in which it has mapped a file of managed memory
                   last, or in which it was first seen */
    struct vgpu_ledger *ledger; /* in the region, for display; NULL: it cannot be shown */
    struct device_node managed; /* the device whose mappings are managed memory; inode 0: it does
                                   not exist yet */
    uint64_t managed_bytes;     /* the sum of those mappings, */
    unsigned managed_vdev;      /* which is charged to this vdev */
    uint64_t unread_ns;         /* since when its map cannot be read, though it lives; 0: it can */
    bool guarded; /* it has made a call that was trapped; else it only got a file from another */
};

/*
 * An open file of the driver. The supervisor holds a duplicate, to recognise the file and to make
 * calls through it. The duplicate would keep alive what the driver has for the file, so it is
 * closed as soon as no process has the file.
 */
struct guard_file {
    int fd; /* -1: the entry is free */
    enum device_kind kind;
    uint32_t number; /* never used twice; also in the object model, for the space or what the file
                        holds */
    bool watched, unreferenced; /* unreferenced.c; unreferenced: `fd` is another file meanwhile */
    pid_t pid;                  /* a process that has it, */
    pid_t tid;                  /* a thread of that with the table of descriptors, */
    int its_fd;                 /* in which it has this number */
    uint32_t owner;             /* the process that has used it first, of those that live */
    bool inherited;             /* the address spaces in which it was used are gone */
    struct device_node node;
};

struct notify {
    struct vgpu_mutex lock;
    atomic_bool ending; /* no call is executed any more */
    atomic_bool acting; /* the trap thread has the lock */
    int listener;       /* of seccomp's notifications; -1: not there yet, or not any more */
    int epoll, wake;    /* of the watch thread; `wake` also ends the control thread's wait */
    int unreferenced_epoll, placeholder; /* unreferenced.c */
    _Atomic uint64_t traps;

    /* Set before the threads start. */
    struct vgpu_region *region;
    const char *region_path, *device_dir;
    atomic_bool region_lost; /* it was cut short (bus.h), and shows nothing any more */
    pid_t keeper;            /* -1: there is none */
    int keeper_pidfd;        /* of this process; the keeper waits for it */

    struct descriptors descriptors;
    struct tasks tasks;
    struct devices devices;
    struct guard_process process[NOTIFY_PROCESSES_MAX];
    uint32_t next_owner;
    struct guard_file file[NOTIFY_FILES_MAX];
    uint32_t next_file;
    unsigned files_high;                   /* entries from here on were never used */
    uint16_t file_order[NOTIFY_FILES_MAX]; /* those with a duplicate, in the kernel's order */
    unsigned files_ordered;
};

#endif

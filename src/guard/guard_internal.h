/*
 * What the files of the supervisor share; nobody else includes this.
 *
 * Threads: the trap thread (trap.c, call.c, borrowed.c, uvm.c, map_proxy.c, view.c), the watch
 * thread (watch.c), the steering thread (control_thread.c), and one for each card's share
 * (cards.c).
 *
 * Locks, in the order in which they are taken:
 *   guard->lock      processes, files, objects, cards and tasks. Held by the trap thread from
 *                    before a call is executed until it is noted, so for as long as the driver
 *                    takes; the watch thread waits meanwhile.
 *   channels.lock    the channels and the duplicates by which they are switched; held during the
 *                    driver's call.
 */
#ifndef VGPU_GUARD_INTERNAL_H
#define VGPU_GUARD_INTERNAL_H

#include "base/clock.h"
#include "base/mutex.h"
#include "account/ledger.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"
#include "guard/nvidia/channels.h"
#include "guard/nvidia/decode.h"
#include "guard/notify/descriptors.h"
#include "guard/notify/device.h"
#include "guard/guard.h"
#include "guard/track/objects.h"
#include "guard/sched/share.h"
#include "guard/notify/task.h"

#include <pthread.h>
#include <stdatomic.h>

#define GUARD_PROCESSES_MAX 512
#define GUARD_FILES_MAX     2048
#define GUARD_CLIENTS_MAX   4096
#define GUARD_DEVICES_MAX   4096
#define GUARD_MAKERS_MAX    4096
/* So long something may not be looked at; strict mode ends the instance then. */
#define GUARD_BLIND_NS (5 * NS_PER_S)

/* A process that has used the driver. */
struct guard_process {
    pid_t pid;      /* 0: the entry is free */
    uint32_t owner; /* its number among the objects; never used twice */
    int pidfd;
    int memory; /* the address space by which it has mapped a UVM file last, or of when it was first
                   seen */
    struct vgpu_ledger *ledger; /* in the region, for people; NULL: it cannot be shown */
    struct device_node
        uvm; /* of which its mappings are looked for; inode 0: there is no such device yet */
    uint64_t managed_bytes; /* the sum of those that can be managed memory, */
    unsigned managed_vdev;  /* which is charged to this vdev */
    uint64_t unread_ns;     /* since when its map cannot be read, though it lives; 0: it can */
    bool guarded; /* it has made a call that was trapped; else it is one that has got a file from
                     another */
};

/*
 * An open file of the driver, of which a duplicate is held: to tell it when it comes again, and to
 * make calls through it. What the driver keeps for it would outlive the program with the duplicate,
 * so it is closed as soon as no process has it any more.
 */
struct guard_file {
    int fd; /* -1: the entry is free */
    enum device_kind kind;
    uint32_t
        number; /* never used twice; its space, if it is a UVM file or holds objects (exports.c) */
    bool watched, unreferenced; /* unreferenced.c; hidden: `fd` is another file's meanwhile */
    pid_t pid;                  /* a process that has it, */
    pid_t tid;                  /* a thread of it, in whose table of descriptors it is */
    int its_fd;                 /* as this number */
    uint32_t owner;             /* the process that has used it first, of those that live */
    bool inherited;             /* the address spaces in which it was used are gone */
    struct device_node node;
};

/* A client of the driver's: it belongs to the file under which it was made. */
struct guard_client {
    uint32_t client, file; /* file: its number; 0: the entry is free */
    uint32_t owner;        /* the process that has used it first: who has made it */
};

/* A card of which a program of the instance has made a device. */
struct guard_card {
    atomic_bool known; /* once it is, the next three stay as they are; read without the lock */
    char uuid_text[VGPU_UUID_LEN];
    uint64_t physical_bytes;
    struct guard *guard;
    _Atomic(struct share *)
        share; /* NULL: nobody asked for it, or it could not be had. Read without the lock */
    struct share *kept; /* the same, for the thread that keeps it; set before that starts */
    pthread_t thread;   /* there is one once there is `share` */
};

/* map_proxy.c; client 0: there is none yet. */
struct map_proxy {
    int fd;
    uint32_t client;
    struct map_proxy_card {
        uint32_t device, subdevice; /* 0: none yet */
        bool missing;
    } card[VGPU_DEVICES_MAX]; /* by vdev */
};

/* Which card a device of a client is. */
struct guard_device {
    uint32_t client, device; /* device 0: the entry is free */
    uint32_t
        subdevice; /* the guard's own, by which channels are switched; 0: by one of the program's */
    unsigned vdev;
};

/* Who may have made a client under a file, dead or alive: the driver counts by that (audit.c). */
struct guard_maker {
    uint32_t file; /* its number; 0: the entry is free */
    pid_t pid;
};

struct guard {
    struct guard_config config;
    char region_path[4096], device_dir[4096], nvml[4096];
    const struct rm_branch *branch;
    struct rm_version version;
    struct vgpu_region *region;
    atomic_bool region_lost,
        region_told; /* it was cut short, and people are told no more (bus.h); it was said */
    struct channels *channels;
    bool audited; /* its memory is compared with NVML's figures */
    bool control; /* RM_CONTROL is trapped */
    struct vgpu_limits
        limits;           /* as they were before the program ran; the region's are for people */
    uint64_t instance_id; /* likewise; see struct share_self */
    atomic_bool paused;   /* written by the steering thread */
    int socket[2];        /* the listener comes this way */
    int listener, epoll, wake;
    int control_socket; /* people ask there (control.h) */
    int child;          /* the command's pidfd */
    pid_t keeper;
    int keeper_pidfd; /* of this process, which the keeper waits for */
    pthread_t trap_thread, watch_thread, control_thread_thread;
    bool trapping, watching, control_running; /* the threads run */
    atomic_bool ending, ended;
    atomic_bool acting; /* the trap thread has the lock */
    bool abandoned;     /* the trap thread is stuck in a program's memory */
    _Atomic uint64_t traps, refusals, audits, differences;
    uint64_t looked_ns; /* watch_look(), the last time */
    _Atomic uint64_t
        reading_ns;   /* since when a program's map is read, with the lock; 0: it is not */
    bool mapped_over; /* it has found more managed memory than the quota leaves */

    struct vgpu_mutex lock;
    struct objects *objects;
    struct descriptors descriptors;
    struct tasks tasks;
    struct devices devices;
    struct guard_process process[GUARD_PROCESSES_MAX];
    struct guard_file file[GUARD_FILES_MAX];
    unsigned files_high;
    struct guard_client client[GUARD_CLIENTS_MAX];
    unsigned clients_high;
    struct guard_maker maker[GUARD_MAKERS_MAX];
    unsigned makers_high;
    struct audit *audit; /* NULL: without */
    uint32_t next_owner, next_file;
    int files_epoll, nothing; /* unreferenced.c */
    struct map_proxy map_proxy;
    struct guard_card card[VGPU_DEVICES_MAX]; /* by vdev */
    struct guard_device device[GUARD_DEVICES_MAX];
    unsigned devices_high;
};

/* trap.c: answers until the guard ends or no process is left that could call. */
void *trap_serve(void *guard);

/* A call that waits: what of it is the kernel's, and so cannot change. */
struct trap {
    uint64_t id;
    pid_t tid;
    uint32_t cmd; /* the low half of an ioctl's */
    int fd;
    uint64_t address; /* of its structure; of mmap: the length */
};

/* Whether the call still waits: after reading from the caller, before anything is done. */
bool trap_valid(const struct guard *guard, const struct trap *trap);

/* Whether nobody runs under the filter any more. */
bool trap_nobody_left(const struct guard *guard);

/*
 * A program's memory may make its reader wait for as long as it likes (userfaultfd(2), a file
 * system of its own), so it is read before the lock is taken and written after that. trap_begin()
 * locks; false: the guard ends, nothing may be done. trap_end() in any case.
 */
bool trap_begin(struct guard *guard);
void trap_end(struct guard *guard);

/* The answers to a trapped call: TRAP_CONTINUE, or what the system call returns, 0 or -errno. */
#define TRAP_CONTINUE 1
int call_rm(struct guard *guard, const struct trap *trap);  /* call.c: on the control device */
int uvm_call(struct guard *guard, const struct trap *trap); /* uvm.c */
int uvm_mmap(struct guard *guard, const struct trap *trap);

/* process.c. All under guard->lock. */
void processes_done(struct guard *guard);
/* -ESRCH: it is gone; -EUSERS: too many; errors of ledger_new_supervised(). */
int process_of(struct guard *guard, pid_t tid, struct guard_process **ret_process);
int process_get(struct guard *guard, pid_t pid, struct guard_process **ret_process);
/* Whose call it is, and through which file: errors of process_of() and file_get(). */
int process_calls(struct guard *guard, const struct trap *trap, struct guard_process **ret_process,
                  struct guard_file **ret_file);
struct guard_process *process_by_owner(const struct guard *guard, uint32_t owner);
bool processes_any(const struct guard *guard);
struct vgpu_ledger *process_any_ledger(const struct guard *guard); /* NULL: there is none */
/* It has died: what was its is another's or gone. */
void process_gone(struct guard *guard, struct guard_process *process);
bool process_alive(const struct guard_process *process);
unsigned
processes_kill(struct guard *guard); /* those that have made calls; returns how many lived */
bool process_memory_lives(
    const struct guard_process *process); /* it has neither ended nor become another program */
/* Before it maps a UVM file: should it have become another program, what that used is not in this
 * one's memory. */
void process_renew(struct guard *guard, struct guard_process *process);
/* Shows it in the ledger of the process. */
void process_charge(const struct guard *guard, const struct objects_charge *charge);
/* The sum of its shared, writable mappings of a device. -errno: they cannot be read. */
int process_mapped(pid_t pid, const struct device_node *device, uint64_t *ret_bytes);
/*
 * The guard's own books: the quota (0: none) as it was given at the start, what of it is used, and
 * whether so much more fits. The region is the user's file, and so a hostile program's: it is told,
 * and not believed.
 */
uint64_t processes_quota(const struct guard *guard, unsigned vdev);
uint64_t processes_used(const struct guard *guard, unsigned vdev);
bool processes_within_quota(const struct guard *guard, unsigned vdev, uint64_t bytes);
/* Counts that a call was refused for lack of so much, and says so. */
void process_refuse(struct guard *guard, struct guard_process *process, unsigned vdev,
                    uint64_t bytes, const char *api);
/* Sets what it has mapped of the UVM device; `force`: whether or not it fits. -ENOMEM. */
int process_managed(struct guard *guard, struct guard_process *process, uint64_t bytes, bool force);

/* files.c. All under guard->lock. */
int files_init(struct guard *guard); /* -errno */
void files_done(struct guard *guard);
/*
 * The caller's open file. -EBADF: it has none; -ENOTTY: it is not the driver's (nothing else is
 * ever trapped on purpose); -EPERM, -ESRCH, -EMFILE.
 */
int file_get(struct guard *guard, pid_t tid, int fd, struct guard_file **ret_file);
/* Takes `fd` for a file of that thread's, which is its `its_fd`. -EMFILE; -ESRCH. */
int file_add(struct guard *guard, pid_t tid, int its_fd, int fd, enum device_kind kind,
             uint32_t number, struct guard_file **ret_file);
void file_close(struct guard *guard,
                struct guard_file *file); /* nobody has it, as far as one can see */
/* Looks whether files are still had by the process that they were last seen at, and lets go of
 * those that nobody has any more. With `only_pid` (0: all) those of a process that is gone. */
void files_check(struct guard *guard, pid_t only_pid);
/* A process is gone: what others still have of its files is theirs with all that belongs to it.
 * False: they have none.
 */
bool files_inherit(struct guard *guard, uint32_t owner);

/* borrowed.c. Under guard->lock. */
struct borrowed {
    unsigned count;
    int fd[DEVICE_GPUS_MAX];
    struct device_node node[DEVICE_GPUS_MAX];
};
void borrow_gpus(struct guard *guard, pid_t tid,
                 struct borrowed *ret_borrowed); /* what cannot be had is not */
/* The capability that is the caller's so manieth descriptor, which becomes ours; UINT64_MAX where
 * it is none. */
void borrow_capability(struct guard *guard, pid_t tid, uint64_t *number,
                       struct borrowed *ret_borrowed);
void borrowed_close(struct borrowed *borrowed);

/* map_proxy.c. Under guard->lock. Fills the status in; -EINTR: the caller is gone; another -errno:
 * UVM's. */
int map_proxy_map(struct guard *guard, const struct trap *trap, const struct guard_process *process,
                  const struct guard_file *space, struct uvm_map_external *map);
void map_proxy_done(struct map_proxy *map_proxy);

/* unreferenced.c. All under guard->lock. */
int unreferenced_init(struct guard *guard);
void unreferenced_done(struct guard *guard);
void unreferenced_watch(const struct guard *guard,
                        struct guard_file *file); /* from now on it can be asked: */
/* Whether a file that nobody is seen to have is closed. If it can be told it is hidden from then
 * on: its duplicate is put away. */
bool unreferenced_is_closed(const struct guard *guard, struct guard_file *file);
/* Whether `fd` is this hidden file, which is none any more then. */
bool unreferenced_is(const struct guard *guard, struct guard_file *file, int fd);

/* exports.c. Under guard->lock: calls by which files come to hold objects, or objects are made of
 * what files hold. */
struct exports {
    struct rm_transfer transfer;
    struct guard_file *file; /* NULL: it is to be made */
    uint32_t number;         /* of the file */
};
/*
 * Before the call is made: `data` has the descriptors as the caller numbers them, and as the guard
 * does afterwards. The status to refuse it with, or 0; -errno. After 0 exports_end() has to be
 * called, with the call's status or -errno, which gives those back or others, and the descriptors.
 */
int exports_begin(struct guard *guard, const struct trap *trap, const struct guard_process *process,
                  const struct rm_call *call, void *data, size_t bytes,
                  struct exports *ret_exports);
int exports_end(struct guard *guard, const struct trap *trap, struct guard_process *process,
                const struct guard_file *file, const struct rm_call *call, void *data, size_t bytes,
                int status, struct exports *exports);

/* clients.c. All under guard->lock. */
/* The driver has taken a call for a client through a file: it is the file's. -ENOSPC, -ENOMEM: too
 * many. */
int client_used(struct guard *guard, uint32_t client, const struct guard_file *file,
                uint32_t owner);
void client_gone(struct guard *guard, uint32_t client);
void clients_file_gone(struct guard *guard, uint32_t file);
void clients_file_unseen(struct guard *guard,
                         uint32_t file); /* what keeps it alive here is dropped, */
void clients_file_seen(struct guard *guard, const struct guard_file *file); /* and had again */
/* Whether the client is known, or can be: before a call is executed that makes something for it. */
bool client_has_room(struct guard *guard, uint32_t client);
struct guard_file *client_file(struct guard *guard, uint32_t client); /* NULL: not known */
uint32_t client_maker(struct guard *guard, uint32_t client);          /* an owner; 0: not known */
bool client_known(struct guard *guard, uint32_t client);
/* A process is about to make a client under the file: it is remembered as long as the file is.
 * -ENOSPC: too many. */
int client_makes(struct guard *guard, const struct guard_file *file, pid_t pid);
bool client_made_by(const struct guard *guard, pid_t pid);

/* cards.c. Under guard->lock. */
/* The vdev of the card that an object of a client is on. -ENODEV: not the instance's, or it cannot
 * be told. */
int card_of(struct guard *guard, const struct guard_file *file, uint32_t client, uint32_t object,
            unsigned *ret_vdev);
int card_uuid(int fd, uint32_t client, uint32_t subdevice, uint8_t ret_uuid[16]); /* -ENODEV */
/* A subdevice of the client's device, to switch channels by. -ENODEV. */
int cards_subdevice(struct guard *guard, const struct guard_file *file, uint32_t client,
                    uint32_t device, uint32_t *ret_subdevice);
/* An object is about to be freed: channels that are switched by it are switched by the guard's own.
 * -ENODEV: there can be none. */
int cards_let_go(struct guard *guard, const struct guard_file *file, uint32_t client,
                 uint32_t subdevice);
bool cards_own(const struct guard *guard, uint32_t client,
               uint32_t object); /* whether it is such a one */
void cards_forget_device(struct guard *guard, uint32_t client, uint32_t device);
/* A channel was made: from now on the card is shared. -errno: it is not, for there is no thread to
 * keep the share, which the program can see to; then the channel must not be. */
int cards_begin_share(struct guard *guard, unsigned vdev);
void cards_done(struct guard *guard); /* without the lock */

/* account.c. Under guard->lock. */
/* Where what a call makes will be. */
struct account_place {
    unsigned vdev;   /* of memory, of a channel */
    bool is_channel; /* that is to be switched: */
    uint32_t subdevice, group;
};
/* Before a call makes something. False: it is a channel that could not be switched. The vdev of
 * memory is for the caller to fill in. */
bool account_may_make(struct guard *guard, const struct guard_file *file,
                      const struct rm_call *call, struct account_place *ret_place);
/* A call that the driver has taken has done this. -errno: what it has made is gone again. */
int account_known(struct guard *guard, const struct guard_file *file, const struct rm_call *call,
                  const struct rm_result *result, struct guard_process *process,
                  const struct account_place *place);
/* An object that was made of another's, of which nothing is known here: if it is memory it is
 * noted, and charged in strict mode. A status; not RM_OK: it must not be. */
uint32_t account_foreign(struct guard *guard, struct guard_process *process,
                         const struct guard_file *file, const struct rm_call *call, uint32_t parent,
                         uint32_t handle);
/* An object that a call has made must not be: it is freed again. */
void account_take_back(struct guard *guard, const struct guard_file *file, uint32_t client,
                       uint32_t parent, uint32_t handle);
/* Charges what the object model says has changed, and forgets channels and devices that are gone;
 * before the lock is given away. */
void account_settle(struct guard *guard);

/* view.c: what a program is to see of the card, in the answer of a control. */
void view_heap(struct guard *guard, unsigned vdev, uint64_t *total, uint64_t *available);
void view_fb_info(struct guard *guard, unsigned vdev, struct rm_fb_info_item *items,
                  uint32_t count);

/* audit.c: the watch thread's, once it runs. */
struct audit;
int audit_new(const char *nvml,
              struct audit **ret_audit); /* loads it. -ENOENT: it does not load; -EIO: it is none */
int audit_begin(struct audit *audit);    /* starts it: some 20 ms. -EIO: it does not start */
void audit_free(struct audit *audit);
/* Compares; takes guard->lock where it has to be sure. True: there is more than is accounted for,
 * or NVML has not said for GUARD_BLIND_NS. */
bool audit_run(struct audit *audit, struct guard *guard);

/* watch.c */
void *watch_serve(void *guard);
/*
 * The steering thread's, without the lock: a program may keep who reads its map waiting (a fault in
 * a file system of its own, and a change of that mapping), and would not be looked at any more.
 */
void watch_the_watch(struct guard *guard);
void watch_wake(struct guard *guard);
/* What of files and mappings is gone; under guard->lock. Not if that was looked at less than so
 * long ago. */
void watch_look(struct guard *guard, uint64_t at_least_ns);
int watch_add(struct guard *guard, struct guard_process *process);

/* control_thread.c */
void *control_thread_serve(void *guard);

/* leftover.c, at the end: kills what the command has started and left behind with a file of the
 * driver's, open or mapped, whether or not it has made calls. Returns how many. A process that
 * keeps its map from being read is one. */
unsigned leftovers_kill(struct guard *guard);

/* keeper.c. -errno. The keeper ends by keeper_end(), or by itself after it has switched on what was
 * off. */
int keeper_start(struct guard *guard);
void keeper_end(struct guard *guard);

#endif

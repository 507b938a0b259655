/*
 * The fake driver from inside. Everything but caller.c and fuse.c works under one lock, which the
 * dispatchers (rm.c, uvm.c) take after what is nested was read, and give back before it is written:
 * a caller's memory may stall.
 */
#ifndef VGPU_TESTS_FAKERM_H
#define VGPU_TESTS_FAKERM_H

#include "fakerm_abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct settings {
    unsigned gpus;
    uint64_t mem_bytes;     /* of each */
    const char *version;    /* 580.126.20 */
    unsigned branch;        /* 580 */
    uint64_t slice_ns;      /* of a channel group, unless it sets its own */
    uint64_t switch_ns;     /* the device turns from one process to another */
    uint64_t off_ns, on_ns; /* what FIFO_DISABLE_CHANNELS takes, and */
    uint64_t end_ns;        /* with only_scheduling */
    uint64_t preempt_ns;    /* what GROUP_PREEMPT takes */
    uint64_t counts_ns;     /* what GR_GET_CTXSW_STATS takes */
    bool huge;              /* memory of 2 MiB and more comes in pieces of 2 MiB */
};

extern struct settings settings;
extern pthread_mutex_t state_lock;
extern struct file *files;

/* caller.c: the memory and the identity of the thread that makes a call */

int caller_read(pid_t tid, uint64_t address, void *ret_data, size_t bytes); /* 0 or -EFAULT */
int caller_write(pid_t tid, uint64_t address, const void *data, size_t bytes);
pid_t caller_process(pid_t tid);
bool caller_is_of(pid_t tid, pid_t process);
bool caller_has_card(pid_t tid, unsigned gpu); /* the card's node is open among its descriptors */
/*
 * Which of our files the thread's descriptor `fd` is: 0 where it is none, or no control device.
 * *ret_own keeps it open until it is closed. Not under the lock: the file system is asked.
 */
struct file *caller_file(pid_t tid, int fd, int *ret_own);

/* fuse.c: the file system */

enum node {
    NODE_ROOT = 1,
    NODE_CTL,
    NODE_UVM,
    NODE_VERSION,
    NODE_BOOK,
    NODE_GPU /* and following */
};

struct file { /* an open file: what the driver ties clients to */
    uint64_t node;
    struct client *clients;
    struct uvm_space *space;
    struct slot *slots; /* export.c */
    unsigned slot_count;
    struct file *next, *prev; /* of all */
    char *text;               /* of version and book, as it was when they were opened */
    size_t text_bytes;
};

#define CALL_MOST 16384u /* what an argument can have */

struct call {
    struct file *file;
    pid_t tid;
    uint32_t cmd;
    uint64_t arg;
    uint64_t unique;
    uint8_t
        data[CALL_MOST]; /* the argument; of it out_bytes are answered by way of the file system */
    size_t out_bytes;
    bool later; /* fuse_answer_ioctl() will be called by whoever has taken note of `unique` */
};

int fuse_mount(const char *dir);
int fuse_start(void);
/* rc: 0 or -errno. */
void fuse_answer_ioctl(uint64_t unique, int rc, const void *data, size_t bytes);

/* rm.c: calls on nvidiactl. 0 or -errno. */

int rm_ioctl(struct call *call);
void rm_file_closed(struct file *file);

/* heap.c, control.c, private.c: some of them */

int heap_ioctl(struct call *call, void *arg);
int control_ioctl(struct call *call, void *arg);
int control_neutral(struct call *call, void *arg);
int private_submit(struct call *call, void *arg);
int private_wait(struct call *call, void *arg);
int private_work(struct call *call, void *arg);
int private_stats(struct call *call, void *arg);
int private_reset(struct call *call, void *arg);
int private_hold(struct call *call, void *arg);
int private_who(struct call *call, void *arg);

/* export.c: what files hold. Controls; the status. */

uint32_t export_control(struct call *call, const struct rm_control *control, void *params);
void export_file_closed(struct file *file);
int export_dmabuf(struct call *call, void *arg);

/* uvm.c: calls on nvidia-uvm */

int uvm_ioctl(struct call *call);
void uvm_file_closed(struct file *file);

/* memory.c: video memory and who has it */

struct reference { /* an object of class 0x40, or a mapping of UVM's: in a ring with the others of
                      the same memory */
    struct memory *memory;
    struct reference *next, *prev;
    pid_t pid; /* 0: UVM */
    bool owner;
};

struct memory {
    unsigned gpu, count;
    uint64_t bytes;
};

uint32_t memory_new(unsigned gpu, uint64_t bytes, pid_t pid, struct reference *ret_reference);
void memory_share(struct reference *source, pid_t pid, struct reference *ret_reference);
void memory_drop(struct reference *reference);

/* object.c: the tree of objects */

struct object {
    struct client *client;
    struct object *parent, *children, *next, *prev; /* siblings */
    struct object *hash_next;
    uint32_t handle, class_id;
    int gpu;     /* -1: of none */
    bool system; /* memory of the host's */
    struct reference reference;
    struct group *group;
    struct channel *channel;
};

struct client {
    struct object object; /* first: a client is the root of its tree */
    struct file *file;
    struct client *next, *prev; /* of the file's */
    struct client *all_next, *all_prev;
    pid_t pid;
    uint32_t last_handle;
    uint32_t may_dup; /* the client that may, though it is another process's */
    struct channel *channels;
};

extern struct client *clients;

struct client *client_find(uint32_t handle);
struct client *client_of_file(uint32_t handle,
                              const struct file *file); /* NULL: not by way of this file */
/* A card's node is the same to all clients of the process; libcuda registers it with a control
 * device. */
struct client *client_of_process(uint32_t handle, pid_t process);
uint32_t client_new(struct file *file, pid_t pid, uint32_t *handle);
struct object *object_find(const struct client *client, uint32_t handle);
/* *handle: 0: one is made. */
uint32_t object_new(struct client *client, struct object *parent, uint32_t *handle,
                    uint32_t class_id, struct object **ret_object);
void object_free(struct object *object); /* with all below */

/* gpu.c: the simulated devices; timing.c is their clockwork */

struct batch {
    struct batch *next;
    uint64_t duration_ns, count;
};

struct channel {
    struct client *client;
    struct channel *client_next, *group_next;
    struct group *group;
    struct batch *first, *last;
    uint64_t left_ns;            /* of the kernel that has begun */
    uint64_t queued_ns, pending; /* of it and all that follow */
    uint64_t completed, busy_ns;
    bool disabled, scheduled, ready;
    bool ending; /* disabled, but what runs goes on until its kernel ends, or its slice */
    bool wedged; /* was switched off before that, or when it was off: it does not run any more, a
                    driver's fault */
};

struct group {                 /* what the device gives slices to */
    struct group *next, *prev; /* ring of the device's */
    struct channel *channels, *current;
    struct account *account;
    unsigned gpu, ready; /* channels that have something to run and may */
    unsigned duplicates; /* handles of it beside the first */
    uint64_t slice_ns;
    pid_t pid;
    bool scheduled, single; /* single: made for a channel without one */
    bool graphics; /* its channels are for kernels, so that it has a context on that engine */
    struct {       /* of the context: how often it was put on the engine, and taken off it */
        uint32_t restores, idle_saves, stops;
    } counts;
};

struct gpu {
    pthread_t thread;
    pthread_cond_t changed;
    uint64_t now_ns; /* simulated up to here */
    struct group *groups, *running;
    struct group *loaded; /* whose context is on the engine; it stays there when its work is over */
    uint64_t switching_ns, slice_left_ns;
    pid_t last_pid;
    uint64_t used, peak, allocations, refused, biggest, busy_ns, switches;
    unsigned channels, channels_disabled, wedged;
    uint8_t uuid[16];
};

extern struct gpu gpus[FAKERM_GPUS_MAX];

int gpu_start(void);
int gpu_by_uuid(const uint8_t uuid[16]); /* -1: none */
struct group *gpu_group_new(unsigned gpu, const struct client *client, uint32_t engine);
void gpu_group_free(struct group *group); /* or one of its handles, while there are others */
/* `engine`: of one without a group. */
struct channel *gpu_channel_new(unsigned gpu, struct client *client, struct group *group,
                                uint32_t engine);
void gpu_channel_free(struct channel *channel);
void gpu_submit(struct channel *channel, uint64_t duration_ns, uint64_t count);
enum gpu_switch { GPU_OFF, GPU_ENDING, GPU_ON }; /* ENDING: what runs goes on for a while */
void gpu_switch(struct channel *const *channels, unsigned count,
                enum gpu_switch to);                                   /* all of one device */
void gpu_wedge(struct channel *channel);                               /* if it is off */
void gpu_schedule(struct group *group, struct channel *only, bool on); /* only: NULL: all of them */
void gpu_touch(unsigned gpu); /* something has changed for the waiters */
void gpu_simulate(struct gpu *gpu);
void gpu_save(struct gpu *gpu); /* the context that is on the engine, if there is one */
void gpu_take_off(struct gpu *gpu, struct group *group);
void gpu_preempt(struct group *group);
void gpu_channel_update(struct channel *channel);

struct waiter {
    struct waiter *next;
    uint64_t unique;
    struct client *client;
    struct channel *channel; /* NULL: all of the client's */
    uint8_t
        answer[sizeof(struct fakerm_submit)]; /* the argument, whichever of the two it is, and */
    size_t status_at, out_bytes;
};

void wait_add(struct waiter *waiter);
void wait_drained(struct channel *channel);
void wait_gone(const struct client *client, const struct channel *channel);
void wait_interrupt(uint64_t unique);
uint64_t wait_due_ns(unsigned gpu); /* when the first of the waiters can be over at the earliest;
                                       UINT64_MAX: never */

/* book.c */

struct account { /* of a process, kept after its end; pid 0: UVM */
    struct account *next;
    pid_t pid;
    unsigned clients;
    struct {
        uint64_t private, owned, duped, peak, allocations, busy_ns;
    } gpu[FAKERM_GPUS_MAX];
};

enum book_call {
    BOOK_ROOT,
    BOOK_ALLOC,
    BOOK_FREE,
    BOOK_DUP,
    BOOK_CONTROL,
    BOOK_HEAP,
    BOOK_ALLOC_MEMORY,
    BOOK_XFER,
    BOOK_OTHER,
    BOOK_UVM_MAP,
    BOOK_UVM_UNMAP,
    BOOK_UVM_FREE,
    BOOK_UVM_OTHER,
    BOOK_MALFORMED,
    BOOK_CALLS
};

struct book {
    uint64_t calls[BOOK_CALLS];
    uint64_t disable_calls, enable_calls;
    unsigned clients, objects, files;
    pid_t last_allocation_pid;
};

extern struct book book;

struct account *book_account(pid_t pid);
uint64_t book_bytes(const struct account *account, unsigned gpu); /* as NVML has it */
void book_write(FILE *out);
void book_reset(void);

#endif

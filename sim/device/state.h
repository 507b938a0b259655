/*
 * The card that simgpu simulates, as the processes that share it see it: one file, mapped by every
 * process.
 *
 * The file is named by SIMGPU_STATE (default /dev/shm/simgpu-<uid>) and made on demand. A companion
 * file with ".lock" behind the name carries a lock for each process: the kernel drops it when the
 * process dies or execs, and then whoever looks next takes the process's memory and queued work
 * away. Everything is guarded by one robust mutex.
 *
 * Functions return 0 or -errno unless they say otherwise. Those named ..._locked need the lock.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

#define SIM_DEVICE_NAME   "simgpu (simulated)"
#define SIM_MAX_DEVICES   16
#define SIM_MAX_PROCESSES 128
#define SIM_MAX_GROUPS    64
#define SIM_MAX_OBJECTS   4096
#define SIM_RING          4096 /* kernels a queue remembers, finished ones included */
#define SIM_QUEUE_DEPTH   1024 /* kernels that may wait; a launch blocks beyond */
#define SIM_SAMPLES       64   /* buckets of SIM_SAMPLE_NS in which busy time is kept */
#define SIM_SAMPLE_NS     100000000ULL
#define SIM_NAME          64
#define SIM_SLICE_NS      2000000ULL
#define SIM_FOREVER_NS    (1ULL << 50) /* the longest a kernel may take: 13 days */

/* What device memory is held for. The last one takes no device memory. */
enum sim_kind {
    SIM_CONTEXT,
    SIM_MODULE,
    SIM_DATA,
    SIM_MANAGED,
    SIM_POOL,
    SIM_GRAPH,
    SIM_ARRAY,
    SIM_VMM,
    SIM_EXTERNAL,
    SIM_HOST,
    SIM_KINDS,
};

/* Every symbol of the driver, for counting calls. */
enum sim_call {
#define HOOK(symbol, handler) CALL_##symbol,
#define PASS(symbol)          CALL_##symbol,
#include "driver.def"
#undef HOOK
#undef PASS
    SIM_CALLS,
};

/* Ways of a copy between host and device. */
enum sim_way {
    SIM_TO_DEVICE,
    SIM_TO_HOST,
    SIM_WAYS,
};

enum sim_life {
    SIM_FREE,
    SIM_LIVE,
    SIM_DEAD, /* its counters stay readable until the slot is needed */
};

struct sim_work {
    uint64_t duration_ns;
    uint64_t done_ns; /* CLOCK_MONOTONIC; valid once the kernel is done */
};

/* A process's kernels for one device, in the order of their launch. */
struct sim_queue {
    uint64_t tail;         /* kernels launched since the process began */
    uint64_t head;         /* kernels done */
    uint64_t progress_ns;  /* how much of kernel `head` is done */
    uint64_t remaining_ns; /* work of all kernels not done */
    struct sim_work ring[SIM_RING];
};

struct sim_process {
    uint32_t life;
    uint32_t generation;
    int32_t pid;
    uint32_t group; /* index + 1; 0: none */
    uint64_t namespace_inode;
    uint64_t start_ticks;
    uint64_t died; /* serial of its death, for reuse in order */
    char name[SIM_NAME];
    uint64_t held[SIM_MAX_DEVICES][SIM_KINDS];
    uint64_t total[SIM_MAX_DEVICES]; /* of all kinds but SIM_HOST */
    uint64_t peak[SIM_MAX_DEVICES];
    uint64_t contexts_created;
    uint64_t contexts_live;
    uint32_t checkpoint; /* CUprocessState */
    uint32_t polls;      /* it looks at words in memory again and again; see stream/worker.c */
    uint64_t copied[SIM_MAX_DEVICES][SIM_WAYS]; /* bytes */
    uint64_t put_away[SIM_MAX_DEVICES][SIM_KINDS];
    uint64_t busy_ns[SIM_MAX_DEVICES];
    uint64_t samples[SIM_MAX_DEVICES][SIM_SAMPLES];
    uint64_t sample_at[SIM_MAX_DEVICES][SIM_SAMPLES];
    uint64_t calls[SIM_CALLS];
    struct sim_queue queue[SIM_MAX_DEVICES];
};

struct sim_group {
    char name[SIM_NAME];
    uint64_t total[SIM_MAX_DEVICES];
    uint64_t peak[SIM_MAX_DEVICES];
    uint64_t busy_ns[SIM_MAX_DEVICES]; /* of all processes it ever had, like the next */
    uint64_t copied[SIM_MAX_DEVICES][SIM_WAYS];
};

/* Memory that other processes may hold too: exported VMM handles, IPC memory. */
struct sim_object {
    uint64_t id; /* 0: free */
    uint64_t bytes;
    uint64_t nonce;
    uint64_t holders[SIM_MAX_PROCESSES / 64]; /* importers */
    int32_t owner; /* slot that is charged; -1: gone, the device holds it */
    int32_t device;
    int32_t pool;       /* 1: a mempool, which weighs nothing itself */
    uint64_t map_bytes; /* what an import is as large as; of memory that weighs nothing on the
                           device, too */
    CUmemAllocationProp prop;
};

struct sim_device {
    uint64_t bytes;
    uint64_t used;
    uint64_t peak;
    uint64_t orphan; /* held by importers, or descriptors, after the owner is gone */
    unsigned char uuid[16];
    uint32_t sms;
    /* the scheduler: see sched.c */
    int32_t current; /* slot that runs; -1: idle */
    int32_t last;    /* slot that ran last; -1: none */
    uint64_t clock_ns;
    uint64_t slice_end_ns;
    uint64_t switch_end_ns;
    uint64_t switches;
    uint64_t waiting[SIM_MAX_PROCESSES / 64]; /* slots with work */
    uint64_t busy_ns;
    uint64_t samples[SIM_SAMPLES];
    uint64_t sample_at[SIM_SAMPLES];
};

struct sim_state {
    uint64_t magic;
    uint64_t size;
    pthread_mutex_t mutex;
    uint32_t device_count;
    uint32_t process_count; /* slots ever used */
    uint64_t next_id;
    uint64_t deaths;
    uint64_t switch_ns;
    struct sim_device device[SIM_MAX_DEVICES];
    struct sim_group group[SIM_MAX_GROUPS];
    struct sim_object object[SIM_MAX_OBJECTS];
    struct sim_process process[SIM_MAX_PROCESSES];
};

/* Maps the state, making it where there is none. Keeps its descriptors for the life of the
 * process. */
int state_open(struct sim_state **ret_state);

/* As state_open(), but fails with -ENOENT where there is none, and doesn't look at the
 * environment's sizes. */
int state_open_existing(struct sim_state **ret_state);

/* Registers the calling process and takes its lock. -ENOSPC when the table is full. */
int state_register(struct sim_state *state, int *ret_slot);

void state_lock(struct sim_state *state);
void state_unlock(struct sim_state *state);

/* Takes away what dead processes hold. Returns how many there were. */
int state_reap_locked(struct sim_state *state);

/* Makes everything as new (devices by the environment). */
void state_reset_locked(struct sim_state *state);

/*
 * Adds bytes of a kind to a process, false when the device is full. Dead processes are reaped
 * before it says so.
 */
bool state_charge_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                         uint64_t bytes);
void state_release_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                          uint64_t bytes);

/* Shared objects: see object.c */
struct sim_object *state_object_new_locked(struct sim_state *state, int slot, int device,
                                           uint64_t bytes);
/* nonce 0: whatever it is. */
struct sim_object *state_object_find_locked(struct sim_state *state, uint64_t id, uint64_t nonce);
void state_object_hold_locked(struct sim_object *object, int slot);
/* Ends an importer's hold; the bytes go when nobody is left, nor a descriptor. */
void state_object_drop_locked(struct sim_state *state, struct sim_object *object, int slot);
/* Ends the owner's hold. The caller releases its own charge first; what others still have becomes
 * the device's. */
void state_object_disown_locked(struct sim_state *state, struct sim_object *object);
void state_objects_forget_locked(struct sim_state *state, int slot);
/* Takes away what only a descriptor kept that is closed by now. */
void state_objects_reap_locked(struct sim_state *state);

/* files.c */
/* The state file's path, by the environment. First of all calls of files.c. */
const char *files_path(void);
/* True where the lock file can be opened. */
bool files_usable(void);
/* Locks a slot for as long as this process lives and does not exec. */
int files_take_slot(int slot);
/* True while the slot's process lives. */
bool files_slot_alive(int slot);

/*
 * Descriptors of an object. As with the driver's, all are files of one inode, the state's. The open
 * file's offset tells the object. A lock that goes with the open file tells whether any process
 * still has a descriptor of it.
 */
int files_descriptor_new(const struct sim_object *object, int *ret_fd);
/* The object's id; 0: it is no such descriptor. */
uint64_t files_descriptor_id(int fd);
bool files_descriptor_left(uint64_t id);

/* The scheduler. */
void sched_advance_locked(struct sim_state *state, int device, uint64_t now_ns);
/* Returns the kernel's number (1 for the first), 0 when the queue is full. */
uint64_t sched_submit_locked(struct sim_state *state, int device, int slot, uint64_t duration_ns,
                             uint64_t now_ns);
/* Ends a kernel that runs until it is told to: at once if it runs or ran, else as soon as its turn
 * comes. */
void sched_finish_locked(struct sim_state *state, int device, int slot, uint64_t number,
                         uint64_t now_ns);
/* A lower bound of the time until kernel `number` of the slot is done; 0 when it is. */
uint64_t sched_remaining_locked(struct sim_state *state, int device, int slot, uint64_t number,
                                uint64_t now_ns);
void sched_leave_locked(struct sim_state *state, int slot);
/* Busy nanoseconds of the last window_ns, from samples. */
uint64_t sched_busy(const uint64_t *samples, const uint64_t *sample_at, uint64_t now_ns,
                    uint64_t window_ns);

uint64_t sim_now_ns(void);
uint64_t sim_namespace_inode(void);
/* "4T", "16G", "512M", "4096": bytes. Returns fallback when text is NULL or no size. */
uint64_t sim_parse_bytes(const char *text, uint64_t fallback);
/* "100us", "20ms", "1s", "500": nanoseconds. */
uint64_t sim_parse_ns(const char *text, uint64_t fallback);

#endif

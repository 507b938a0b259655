/*
 * The devices that simgpu simulates, and the processes that share them: one file, which every
 * process maps. SIMGPU_STATE names the file (default /dev/shm/simgpu-<uid>). It is made on demand.
 * A companion file with the suffix ".lock" has a lock for each process. The kernel drops the lock
 * when the process dies or execs. The next process to look then takes its memory and queued work
 * away. One robust mutex guards the whole file. Functions return 0 or -errno unless they say
 * otherwise. Functions named ..._locked need the mutex.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

#define SIM_DEVICE_NAME    "simgpu (simulated)"
#define SIM_DRIVER_VERSION 13000 /* as cuDriverGetVersion() reports it */
#define SIM_SMS            132   /* multiprocessors of a device */
#define SIM_MAX_DEVICES    16
#define SIM_MAX_PROCESSES  128
#define SIM_MAX_GROUPS     64
#define SIM_MAX_OBJECTS    4096
#define SIM_RING           4096 /* kernels a queue remembers, finished ones included */
#define SIM_QUEUE_DEPTH    1024 /* kernels that may wait; a launch blocks beyond */
#define SIM_SAMPLES        64   /* buckets of SIM_SAMPLE_NS in which busy time is kept */
#define SIM_SAMPLE_NS      100000000ULL
#define SIM_NAME           64
#define SIM_SLICE_NS       2000000ULL
#define SIM_FOREVER_NS     (1ULL << 50) /* the longest a kernel may take: 13 days */

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
    uint64_t died; /* serial number of its death: the oldest slot is reused first */
    char name[SIM_NAME];
    uint64_t held[SIM_MAX_DEVICES][SIM_KINDS];
    uint64_t total[SIM_MAX_DEVICES]; /* of all kinds but SIM_HOST */
    uint64_t peak[SIM_MAX_DEVICES];
    uint64_t contexts_created;
    uint64_t contexts_live;
    uint32_t checkpoint;                        /* CUprocessState */
    uint32_t polls;                             /* it polls words in memory: see stream/worker.c */
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
    uint64_t busy_ns[SIM_MAX_DEVICES]; /* of all processes that it ever had; so is copied */
    uint64_t copied[SIM_MAX_DEVICES][SIM_WAYS];
};

/* Memory that other processes may hold, too: exported VMM handles, IPC memory. */
struct sim_object {
    uint64_t id; /* 0: free */
    uint64_t bytes;
    uint64_t nonce;
    uint64_t holders[SIM_MAX_PROCESSES / 64]; /* importers */
    int32_t owner; /* slot that is charged; -1: gone, the device holds it */
    int32_t device;
    int32_t pool;       /* 1: a memory pool, which takes no memory itself */
    uint64_t map_bytes; /* size of an import, also where `bytes` is 0 */
    CUmemAllocationProp prop;
};

struct sim_device {
    uint64_t bytes;
    uint64_t used;
    uint64_t peak;
    uint64_t orphan; /* held by importers or descriptors after its owner is gone */
    unsigned char uuid[16];
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

/* Maps the state, and makes it if there is none. Keeps its descriptors open. */
int state_open(struct sim_state **ret_state);

/* As state_open(), but -ENOENT if there is none, and whatever sizes the environment asks for. */
int state_open_existing(struct sim_state **ret_state);

/* Registers the calling process and takes its lock. -ENOSPC when the table is full. */
int state_register(struct sim_state *state, int *ret_slot);

void state_lock(struct sim_state *state);
void state_unlock(struct sim_state *state);

/* Takes away what dead processes hold. Returns the number of these processes. */
int state_reap_locked(struct sim_state *state);

/* Resets everything; devices get the sizes in the environment. */
void state_reset_locked(struct sim_state *state);

/* Adds bytes to a process. False if the device is full, with dead processes reaped. */
bool state_charge_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                         uint64_t bytes);
void state_release_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                          uint64_t bytes);

/* Shared objects: see object.c */
struct sim_object *state_object_new_locked(struct sim_state *state, int slot, int device,
                                           uint64_t bytes);
/* A nonce of 0 matches every object of the id. */
struct sim_object *state_object_find_locked(struct sim_state *state, uint64_t id, uint64_t nonce);
void state_object_hold_locked(struct sim_object *object, int slot);
/* Ends an importer's hold. The bytes are freed once no holder and no descriptor is left. */
void state_object_drop_locked(struct sim_state *state, struct sim_object *object, int slot);
/* Ends the owner's hold. The caller has released its own charge. Memory that others still hold is
 * from now on charged to the device. */
void state_object_disown_locked(struct sim_state *state, struct sim_object *object);
void state_objects_forget_locked(struct sim_state *state, int slot);
/* Frees objects whose last descriptor has been closed. */
void state_objects_reap_locked(struct sim_state *state);

/* files.c */
/* The state file's path, by the environment. Comes before all other functions of files.c. */
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
/* The object's id. 0: the descriptor is of no object. */
uint64_t files_descriptor_id(int fd);
bool files_descriptor_left(uint64_t id);

/* The scheduler. */
void sched_advance_locked(struct sim_state *state, int device, uint64_t now_ns);
/* Returns the kernel's number (1 for the first), 0 when the queue is full. */
uint64_t sched_submit_locked(struct sim_state *state, int device, int slot, uint64_t duration_ns,
                             uint64_t now_ns);
/* Ends a kernel that has no end of its own: at once if it has begun, else as soon as it begins. */
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
/* Parses bytes: "4T", "16G", "512M", "4096". Returns fallback if text is NULL or no size. */
uint64_t sim_parse_bytes(const char *text, uint64_t fallback);
/* Parses a duration into nanoseconds: "100us", "20ms", "1s", "500". Fallback as above. */
uint64_t sim_parse_ns(const char *text, uint64_t fallback);

#endif

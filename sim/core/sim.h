/* The simulated driver's objects in one process. sim.mutex guards all of them unless a comment says
 * otherwise. The shared state's mutex is taken after sim.mutex. */
#ifndef SIM_H
#define SIM_H

#include "api.h"
#include "fault.h"
#include "abi.h"
#include "state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define SIM_BLOCK         (2ULL << 20)  /* unit of device memory */
#define SIM_SMALL         (1ULL << 20)  /* largest allocation that shares a block */
#define SIM_BACKED        (64ULL << 20) /* larger pieces of memory keep no contents */
#define SIM_GROW          (32ULL << 20)
#define SIM_STACK         64
#define SIM_CONTEXT_BYTES (512ULL << 20) /* what a context takes of the device */
#define SIM_MODULE_BYTES  (2ULL << 20)
#define STREAM_LEGACY     ((struct sim_stream *)1)
#define STREAM_PER_THREAD ((struct sim_stream *)2)

enum { LIMITS = CU_LIMIT_CIG_ENABLED + 1 };

enum sim_magic {
    MAGIC_CONTEXT = 0x43747831,
    MAGIC_STREAM = 0x53747231,
    MAGIC_EVENT = 0x45767431,
    MAGIC_MODULE = 0x4d6f6431,
    MAGIC_LIBRARY = 0x4c696231,
    MAGIC_FUNCTION = 0x46756e31,
    MAGIC_ARRAY = 0x41727231,
    MAGIC_MIPMAP = 0x4d697031,
    MAGIC_POOL = 0x506f6f31,
    MAGIC_GRAPH = 0x47726131,
    MAGIC_NODE = 0x4e6f6431,
    MAGIC_EXEC = 0x45786531,
    MAGIC_EXTERNAL = 0x45787431,
    MAGIC_GREEN = 0x47726e31,
};

/* Takes an item out of a list, if it is in it. */
#define LIST_REMOVE(list, item)                                                                    \
    do {                                                                                           \
        __typeof__(list) *link_ = &(list);                                                         \
        while (*link_ && *link_ != (item))                                                         \
            link_ = &(*link_)->next;                                                               \
        if (*link_)                                                                                \
            *link_ = (item)->next;                                                                 \
    } while (0)

/* True for a live object of the kind. Destroyed objects stay readable: see handle.c. */
#define IS(object, kind) ((object) && (object)->magic == (kind))

struct sim_capture;
struct sim_graph;
struct sim_node;
struct sim_op;

enum { BLOCK_UNIT_MIN = 512, BLOCK_UNITS = SIM_BLOCK / BLOCK_UNIT_MIN };

/* A 2 MiB block shared by small allocations. */
struct sim_block {
    struct sim_block *next, *previous;
    struct sim_block **list;
    struct sim_range *range;
    unsigned unit_bytes;
    unsigned free_units;
    uint64_t used[BLOCK_UNITS / 64];
    uint16_t units[BLOCK_UNITS];
    uint32_t bytes[BLOCK_UNITS];
};

enum sim_range_kind {
    RANGE_DATA, /* one allocation */
    RANGE_BLOCK,
    RANGE_POOL,     /* a piece of a pool */
    RANGE_RESERVED, /* cuMemAddressReserve */
    RANGE_IMPORT,   /* IPC or external memory */
    RANGE_GRAPH,    /* address of a graph's memory node */
};

/* For a free in no stream's order. */
#define NO_ORDER UINT64_MAX

struct sim_range;

/* What a kind of memory does with addresses in its ranges. */
struct range_ops {
    /* The allocation at an address: its start and its size as asked. */
    bool (*find)(struct sim_range *range, devptr address, devptr *ret_base, uint64_t *ret_bytes);
    /* Makes memory readable and writable for a copy. False if its contents are not kept. */
    bool (*touch)(struct sim_range *range, devptr address, uint64_t bytes);
    /* Frees the allocation that begins at the address. order: see address_free(). */
    int (*free)(struct sim_range *range, devptr address, uint64_t order);
};

/* A run of simulated device addresses, whole 2 MiB blocks. */
struct sim_range {
    devptr base;
    uint64_t bytes; /* addresses taken */
    uint64_t asked; /* bytes that the program asked for */
    enum sim_range_kind what;
    const struct range_ops *ops;
    enum sim_kind kind;
    int device;   /* physical index */
    bool touched; /* readable and writable from the host side */
    uint64_t charged;
    struct sim_context *context;
    struct sim_range *next, *previous; /* of the context */
    struct sim_block *block;
    void *owner;        /* pool, reservation, external memory ... */
    uint64_t object_id; /* shared object, 0: none */
    uint64_t object_nonce;
    uint64_t number; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    int references;
};

struct sim_ipc_handle { /* in the 64 bytes of CUipcMemHandle and CUipcEventHandle */
    uint64_t magic;
    uint64_t id;
    uint64_t nonce;
    uint64_t offset;
    uint64_t bytes;
    int32_t pid;
    unsigned char reserved[20];
};
_Static_assert(sizeof(struct sim_ipc_handle) == sizeof(CUipcMemHandle), "another size than CUDA's");

struct sim_context;

/* Called for a value that was kept with a context, when the context ends. */
typedef void storage_gone(struct sim_context *context, void *key, void *value);

struct sim_storage {
    void *key, *value;
    storage_gone *gone;
    struct sim_storage *next;
};

struct sim_context {
    unsigned magic;
    int device;  /* physical index */
    int ordinal; /* CUdevice */
    bool primary;
    bool dead;
    unsigned flags;
    unsigned api_version;
    int references;
    uint64_t id;
    uint64_t charged; /* device memory of the context itself */
    size_t limits[LIMITS];
    int cache_config, shared_config;
    uint32_t peers; /* bit per ordinal */
    struct sim_green *green;
    struct sim_stream *legacy;
    struct sim_stream *streams;
    struct sim_module *modules;
    struct sim_array *arrays;
    struct sim_range *ranges;
    struct sim_block *blocks[SIM_KINDS];
    struct sim_storage *storage;
    struct sim_context *next;
};

struct sim_nodes {
    struct sim_node **list;
    int count, room;
};

struct sim_stream {
    unsigned magic;
    unsigned flags;
    int priority;
    bool legacy;
    bool gone;
    uint64_t id;
    uint64_t last; /* number of its last kernel in the process's queue */
    struct sim_context *context;
    struct sim_op *first, *end;
    bool held; /* in the worker's list */
    struct sim_stream *next_held;
    uint64_t kept,
        let_go; /* number of operations that were ever added to its list, and that left it */
    uint64_t joins_legacy,
        legacy_joins; /* `kept` of the other stream, up to which this one is ordered after it */
    uint64_t free_ns; /* time until which something held it */
    int writes;       /* words to be written once its kernels are done */
    struct sim_stream *next; /* of the context */
    struct sim_capture *capture;
    struct sim_nodes tips; /* nodes that the next captured one depends on */
};

struct sim_green {
    unsigned magic;
    int ordinal;
    uint64_t id;
    uint64_t charged;
    CUdevResource resource;
    struct sim_context *context; /* made at the first cuCtxFromGreenCtx */
};

struct sim_thread {
    struct sim_context *stack[SIM_STACK];
    int depth;
    int capture_mode;                            /* 0 global, 1 thread local, 2 relaxed */
    struct sim_stream *streams[SIM_MAX_DEVICES]; /* per-thread default streams, newest contexts */
};

/* A page that the kernel clears in a child of fork(), where CUDA does not work. */
struct sim_page {
    uint32_t ready;
};

struct sim {
    struct sim_page *page;
    uint64_t *calls;
    uint32_t *frozen; /* checkpoint state */
    bool slow;        /* faults or latencies of single symbols */
    bool noop;
    bool lazy;
    bool old_memops;
    bool was_ready;
    uint64_t latency_ns;
    uint64_t bandwidth; /* bytes/s of the device's memory; 0: memsets and copies take no time */
    uint64_t copy_bandwidth; /* the same of copies between host and device */
    uint64_t poll_ns;        /* how often words in memory are looked at */
    int device_count;
    int map[SIM_MAX_DEVICES]; /* ordinal to physical index */
    int slot;
    uint32_t generation;
    struct sim_state *state;
    struct sim_process *self;
    uint64_t held[SIM_MAX_DEVICES][SIM_KINDS];
    pthread_mutex_t mutex;
    struct sim_context *contexts;
    struct sim_context *primary[SIM_MAX_DEVICES]; /* by ordinal; NULL: not active */
    struct sim_context *primary_handle[SIM_MAX_DEVICES];
    unsigned primary_flags[SIM_MAX_DEVICES];
    uint64_t next_number;
};

extern struct sim sim;
extern __thread struct sim_thread sim_thread;

/* core.c */
/* Registers this process with the state, which is open. A CUDA error code. */
int sim_attach(void);
int sim_enter_slow(enum sim_call call, bool early);
void sim_delay(uint64_t duration_ns);
/* Sleeps until a time, and polls the clock at the end to be exact. */
void sim_sleep_until(uint64_t until_ns);
void sim_lock(void);
void sim_unlock(void);
/* Adds memory to what this process holds: 0 or CUDA_ERROR_OUT_OF_MEMORY. */
int sim_charge(int device, enum sim_kind kind, uint64_t bytes);
void sim_release(int device, enum sim_kind kind, uint64_t bytes);
/* Takes the shared lock after making sure that this process is still registered. */
void sim_lock_state(void);
uint64_t sim_number(void);
/* Allocates an object and sets its magic, which must be the first member. */
void *sim_object(size_t bytes, unsigned magic);
bool sim_ordinal_valid(int ordinal);

static inline int sim_enter(enum sim_call call)
{
    if (__builtin_expect(sim.page->ready && !sim.slow && !*sim.frozen, 1)) {
        if (__builtin_expect(sim.noop, 0))
            sim.calls[call]++; /* cheap, but inexact with several threads */
        else
            __atomic_fetch_add(&sim.calls[call], 1, __ATOMIC_RELAXED);
        return CUDA_SUCCESS;
    }
    return sim_enter_slow(call, false);
}

static inline int sim_enter_early(enum sim_call call)
{
    return sim_enter_slow(call, true);
}

/* context.c */
static inline struct sim_context *sim_current(void)
{
    return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}
/* The calling thread's context: 0, CUDA_ERROR_INVALID_CONTEXT or CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
int context_need(struct sim_context **ret_context);
/* Puts the calling thread's context where the program named none: 0 or CUDA_ERROR_INVALID_CONTEXT.
 */
int context_named(struct sim_context **context);
/* `bytes`: what it takes of the device. */
int context_new(int ordinal, unsigned flags, unsigned version, uint64_t bytes,
                struct sim_context **ret_context);
/* Makes an object a context, whether or not it was one before. */
int context_start(struct sim_context *context, int ordinal, unsigned flags, unsigned version,
                  uint64_t bytes, bool primary);
void context_destroy(struct sim_context *context);
/* The handle of a device's primary context. It never changes, whether the context is active or not.
 * NULL: out of memory. */
struct sim_context *context_primary(int ordinal);

/* What a layer above keeps for contexts. */
struct context_part {
    void (*begin)(struct sim_context *context); /* NULL: nothing to do */
    void (*end)(struct sim_context *context);
};
/* Sets the parts, in the order in which they begin and end. Comes before the first context. The
 * array is not copied. */
void context_set_parts(const struct context_part *parts, size_t count);

/* storage.c: what the runtime keeps with a context. NULL stands for the current one. */
int storage_put(struct sim_context *context, void *key, void *value, storage_gone *gone);
int storage_delete(struct sim_context *context, void *key);
int storage_get(void **ret_value, struct sim_context *context, void *key);
/*
 * Calls the `gone` functions before the context ends; without sim.mutex, as they call the driver.
 */
void storage_drop(struct sim_context *context);

/* address.c: simulated device addresses, backed by memory once a copy touches them. */
struct sim_range *range_new(uint64_t bytes, enum sim_range_kind what);
struct sim_range *range_new_at(devptr wanted, uint64_t bytes, uint64_t alignment,
                               enum sim_range_kind what);
struct sim_range *range_find(devptr address);
void range_free(struct sim_range *range);
/* Makes the range's memory accessible. False if it is too large to keep it: see SIM_BACKED. */
bool range_touch(struct sim_range *range);
void range_link(struct sim_range *range, struct sim_context *context);
/* Charges a range and remembers how much. */
int range_charge(struct sim_range *range, int device, enum sim_kind kind, uint64_t bytes);
/* Members of range_ops for a range that is one allocation. */
bool range_find_whole(struct sim_range *range, devptr address, devptr *ret_base,
                      uint64_t *ret_bytes);
bool range_touch_whole(struct sim_range *range, devptr address, uint64_t bytes);
int range_free_whole(struct sim_range *range, devptr address, uint64_t order);

/* The same for the range that an address is in. */
bool address_find(devptr address, devptr *ret_base, uint64_t *ret_bytes,
                  struct sim_range **ret_range);
bool address_touch(struct sim_range *range, devptr address, uint64_t bytes);
/* order: the id of the stream in whose order it is freed, 0 for a graph's, or NO_ORDER. */
int address_free(devptr address, uint64_t order);

/* handle.c: destroys an object, and keeps its memory for a while to recognise stale handles. */
void handle_retire(void *object);

/* captures.c: captures that have not ended, and what they forbid. */
struct sim_capture {
    uint64_t id;
    int mode;
    int status;
    struct sim_graph *graph;
    bool own_graph; /* false: the caller's, cuStreamBeginCaptureToGraph */
    struct sim_stream *origin;
    struct sim_thread *thread;
    struct sim_capture *next;
};

extern int capture_count; /* captures not ended, atomic */
static inline bool stream_captures(const struct sim_stream *stream)
{
    return __atomic_load_n(&capture_count, __ATOMIC_RELAXED) && stream->capture;
}
void capture_opened(struct sim_capture *capture);
void capture_closed(struct sim_capture *capture);
/* NULL: it has ended. */
struct sim_capture *capture_of_id(uint64_t id);
void capture_invalidate(struct sim_capture *capture);
/* Refuses a call that is unsafe while a capture that concerns this thread is active. */
int capture_refuse(void);
/* For work on a stream that captures: 0 if a node may be added, else the error. */
int capture_check(struct sim_stream *stream);
/* For work on the legacy stream while a stream that it would synchronise with captures. */
int capture_legacy_check(struct sim_stream *stream);
/* The same for a query, which does not invalidate the capture. */
int capture_legacy_ask(struct sim_stream *stream);

#endif

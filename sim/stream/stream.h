/*
 * Streams, events, captures and graphs of one process. Guarded by sim.mutex.
 *
 * Kernels of all streams of a process go into the process's one queue for the device (see sched.c),
 * so work on the device is in order by itself. What the device cannot order (host functions, host
 * copies, waits for another device or for a word in memory) holds its stream: later work of the
 * stream waits in stream->first until worker.c has got there.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim.h"

enum sim_op_kind {
    OP_KERNEL,
    OP_CALL, /* a host function */
    OP_DO,   /* something of the simulator's own; sim.mutex is held */
    OP_COPY, /* what a copy between host and device takes */
    OP_RECORD,
    OP_WAIT,
    OP_WAIT_WORD,
    OP_WRITE_WORD,
    OP_JOIN, /* after work of another stream that is held */
};

struct sim_kernel {
    uint64_t duration_ns;
    bool until; /* it ends when *address == value */
    uint32_t value;
    devptr address;
};

struct sim_memop {
    devptr address;
    uint64_t value;
    unsigned flags;
    bool wide; /* 64 bits */
};

/* A record of an event that was held when it was asked for. Whoever waits for it waits for this
 * one, whatever the event is used for later. */
struct sim_record {
    int references;
    bool submitted;
    int device;
    uint64_t number;
};

enum sim_call_state { CALL_WAITS, CALL_RUNS, CALL_DONE };

struct sim_op {
    enum sim_op_kind kind;
    union {
        struct sim_kernel kernel;
        struct sim_memop memop;
        struct {
            struct sim_event *event;
            struct sim_record *record;
        };
        struct {
            struct sim_record *record; /* NULL: it is kernel `number` */
            int device;
            uint64_t number;
        } wait;
        struct {
            void (*function)(void *);
            void *user;
            enum sim_call_state state;
            struct sim_op *next_call;
        };
        struct {
            uint64_t bytes;
            enum sim_way way;
            uint64_t asked_ns, end_ns; /* 0: not begun */
        } copy;
        struct {
            struct sim_stream *stream;
            uint64_t sequence;
        } join;
    };
    struct sim_op *next;
};

enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };

struct sim_nodes {
    struct sim_node **list;
    int count, room;
};

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
    uint64_t kept, let_go; /* operations that ever were in its list, and that left it */
    uint64_t joins_legacy,
        legacy_joins;        /* `kept` of the other one, up to which the two are in order already */
    uint64_t free_ns;        /* until when something held it */
    int writes;              /* words to be written once its kernels are done */
    struct sim_stream *next; /* of the context */
    struct sim_capture *capture;
    struct sim_nodes tips; /* nodes that the next captured one depends on */
};

enum { EVENT_NEVER, EVENT_HELD, EVENT_SUBMITTED };

struct sim_event {
    unsigned magic;
    unsigned flags;
    int state;
    struct sim_record *held; /* its newest record, while that is held */
    int held_records;        /* operations that name it */
    int device;
    uint64_t stream; /* id of the one that it was recorded in last */
    uint64_t number;
    uint64_t time_ns; /* 0: not known yet */
    struct sim_context *context;
    struct sim_event *next_pending;
    bool pending;
    uint64_t capture_id; /* 0: last recorded outside a capture */
    struct sim_nodes nodes;
    struct abi_ipc_handle ipc;
};

struct sim_node {
    unsigned magic;
    int type;
    bool enabled;
    struct sim_graph *graph;
    struct sim_nodes needs;
    struct sim_kernel work;
    uint64_t values[2]; /* copies of the kernel's arguments */
    void *arguments[2];
    union {
        struct abi_kernel_node kernel;
        struct abi_memcpy_node copy;
        struct abi_memset_node set;
        struct abi_host_node host;
        struct abi_batch_node batch; /* its operations are the node's own */
        struct sim_graph *child;
        struct sim_event *event;
        struct abi_mem_alloc_node alloc;
        devptr release;
    } u;
    struct sim_node *source; /* in a clone or executable graph: the node it was made from */
    int mark;                /* for walks */
};

struct sim_graph {
    unsigned magic;
    struct sim_nodes nodes;
    struct sim_graph *source;
};

struct sim_exec {
    unsigned magic;
    unsigned long long flags;
    struct sim_graph *graph;  /* its own copy, in an order that can be run */
    struct sim_graph *origin; /* of one with memory nodes, while it exists */
    struct sim_exec *next;    /* of those with memory nodes */
    uint64_t memory_bytes;    /* most that its memory nodes hold at once */
    int device;
    int live_allocations;
    struct sim_stream *stream; /* of its last launch */
    uint64_t number;
};

/* stream.c */
/* The stream behind a handle, NULL and the two special ones included; 0 or an error. Needs a
 * current context for those.
 */
int stream_resolve(struct sim_stream *handle, struct sim_stream **ret_stream);

/* work.c */
/* An OP_WAIT is for the newest record of op.event. */
int work_submit(struct sim_stream *stream, struct sim_op op);
int work_call(struct sim_stream *stream, void (*function)(void *), void *user);
/*
 * Puts the stream behind what the legacy stream's rule wants it to come after. Sets whether nothing
 * holds it then, so that what it is told to do may be done now.
 */
int work_begin(struct sim_stream *stream, bool *ret_free);
/* Waits for room in a stream that is held, as a launch does. Called before any other look at the
 * stream. */
void work_room(struct sim_stream *stream);
/* Does an operation if it can be done now; the part of a held stream's first one is the
 * worker's. */
bool work_try(struct sim_stream *stream, struct sim_op *op);
/* A copy that could begin at a time gets its place on the engine: when it will be over. */
uint64_t work_copy_begin(int device, enum sim_way way, uint64_t bytes, uint64_t time_ns);
void work_sleep_until(uint64_t until_ns);
/* A lower bound of the time until the kernel is done, 0 when it is. */
uint64_t work_remaining(int device, uint64_t number);
/* Waits until all work of the stream so far is done. Called without sim.mutex. */
void work_wait(struct sim_stream *stream);
bool work_done(struct sim_stream *stream);
/* Waits for kernel `number` of this process on the device. Called without sim.mutex. */
void work_wait_number(int device, uint64_t number);
bool work_number_done(int device, uint64_t number);
/* Finds out when a submitted event happened; false while it hasn't. */
bool work_event_time(struct sim_event *event);

/* worker.c */
int worker_start(void);
int worker_hold(struct sim_stream *stream, const struct sim_op *op);
/* The streams that are held. */
extern struct sim_stream *worker_held;
/* Something for it to do, unless it finds out by itself. */
void worker_kick(void);
/* A word to be written when the kernel is done; a kernel that ends when a word says so. */
int worker_write(struct sim_stream *stream, uint64_t number, const struct sim_memop *memop);
int worker_until(int device, uint64_t number, const struct sim_kernel *kernel);
/* True when the stream has yet to write to one of the word's bytes. */
bool worker_writes(const struct sim_stream *stream, const struct sim_memop *memop);
/* Writes what is due. Whoever says that work is done calls it before. */
bool worker_settle(void);
/* The same without sim.mutex; cheap where there is nothing to be written. */
void worker_settle_unlocked(void);
/* Waits until a stream's list gets shorter, for at most 10 ms. */
void work_wait_change(void);

/* memop.c */
/* The memory of a word; NULL when it is none that can be used. */
void *memop_word(devptr address, bool wide);
bool memop_true(const struct sim_memop *memop);
void memop_write(const struct sim_memop *memop);
int memop_check(const struct abi_memop *operations, unsigned count, bool old);
int memop_submit(struct sim_stream *stream, const struct abi_memop *operation);

/* event.c */
void event_record_submitted(struct sim_event *event, int device, uint64_t number);
void record_drop(struct sim_record *record);

/* capture.c */
extern int capture_count; /* captures not ended, atomic */
static inline bool stream_captures(const struct sim_stream *stream)
{
    return __atomic_load_n(&capture_count, __ATOMIC_RELAXED) && stream->capture;
}
/* For work on a stream that captures: 0 when a node may be added, else the error. */
int capture_check(struct sim_stream *stream);
/* Adds a node after the stream's tips and makes it the tip. */
int capture_add(struct sim_stream *stream, struct sim_node *node);
int capture_record(struct sim_stream *stream, struct sim_event *event);
int capture_wait(struct sim_stream *stream, struct sim_event *event);
/* The result of waiting for, or asking about, a captured event: it spoils the capture. */
int capture_asked(struct sim_event *event);
/* For work on the legacy stream while a stream that it would synchronise with captures. */
int capture_legacy_check(struct sim_stream *stream);
/* The same for a mere question, which spoils nothing. */
int capture_legacy_ask(struct sim_stream *stream);
void capture_invalidate(struct sim_capture *capture);

/* graph.c */
struct sim_graph *graph_new(void);
void graph_free(struct sim_graph *graph);
struct sim_node *node_new(struct sim_graph *graph, int type);
int node_depend(struct sim_node *node, struct sim_node *const *needs, size_t count);
bool nodes_add(struct sim_nodes *nodes, struct sim_node *node);
bool nodes_have(const struct sim_nodes *nodes, const struct sim_node *node);
void nodes_remove(struct sim_nodes *nodes, const struct sim_node *node);
void nodes_clear(struct sim_nodes *nodes);
struct sim_graph *graph_copy(const struct sim_graph *graph);
/* Copies a batch's operations into a node. */
int node_set_batch(struct sim_node *node, const struct abi_batch_node *batch);
/* Takes a kernel's parameters into a node. */
void node_set_kernel(struct sim_node *node, const struct abi_kernel_node *parameters);

/* graphmem.c */
bool graph_memory_has(const struct sim_graph *graph);
bool graph_memory_instantiated(const struct sim_graph *graph);
void graph_memory_join(struct sim_exec *exec, struct sim_graph *origin);
void graph_memory_leave(struct sim_exec *exec);
void graph_memory_forget(const struct sim_graph *graph);
/* Takes what a run needs. */
int graph_memory_take(struct sim_exec *exec, struct sim_stream *stream);
/* An allocation begins; it ends with graph_memory_free(). */
void graph_memory_live(struct sim_range *range, struct sim_exec *exec);
void graph_memory_free(struct sim_range *range);
int graph_memory_node(struct sim_node *node, struct abi_mem_alloc_node *parameters);

/* module.c */
enum sim_function_kind {
    FUNCTION_ANY,
    FUNCTION_BUSY,  /* (uint64_t ns): takes that long */
    FUNCTION_UNTIL, /* (uint64_t address, uint32_t value): ends when *address == value */
};

#define SIM_PARAMETER_BYTES 4096

struct sim_function {
    unsigned magic;
    enum sim_function_kind kind;
    bool loaded;
    int block[3];              /* as the launch calls of the first ABI have it, like the next */
    unsigned char *parameters; /* SIM_PARAMETER_BYTES */
    unsigned parameter_bytes, shared_bytes;
    uint64_t duration_ns;            /* where its kind has none */
    const struct sim_symbol *symbol; /* of the image; NULL: nothing is known of it */
    struct sim_module *module;
    struct sim_library *library;
    struct sim_function *next;
    int attributes[16];
    char name[];
};
/* Parameters by kind: how many, and their sizes. */
int function_parameters(const struct sim_function *function, const unsigned char **ret_bytes);
/* Copies the arguments of a launch; false where the function has no parameters, or the launch none
 * for them. */
bool function_arguments(const struct sim_function *function, void **params, void **extra,
                        uint64_t values[2]);
struct sim_kernel function_kernel(const struct sim_function *function, void **params, void **extra);

/* launch.c */
int launch_function(struct sim_function *function, const unsigned *grid, const unsigned *block,
                    unsigned shared_bytes, struct sim_stream *handle, void **params, void **extra);
/* With SIMGPU_LAZY: what the first launch of a function, or its loading, waits for. */
void launch_load(struct sim_function *function, struct sim_context *context);

/* copy.c */
/* A node's copy or memset, in the stream's order. sim.mutex is held. */
int copy_run_node(const struct sim_node *node, struct sim_stream *stream);

#endif

/*
 * Streams, events, captures and graphs of one process. Guarded by sim.mutex.
 *
 * Kernels of all streams of a process go into the process's one queue for the device (see sched.c), so work on the
 * device is in order by itself. What the device cannot order (host functions, waits for another device) keeps its
 * stream: later work of the stream waits in stream->first until a thread of the simulator has done it.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim.h"

enum sim_op_kind {
    OP_KERNEL,
    OP_CALL, /* a host function, or a copy behind one */
    OP_RECORD,
    OP_WAIT,
};

struct sim_op {
    enum sim_op_kind kind;
    uint64_t duration_ns;
    void (*function)(void *);
    void *user;
    struct sim_event *event;
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
    struct sim_stream *next; /* of the context */
    struct sim_capture *capture;
    struct sim_nodes tips; /* nodes that the next captured one depends on */
};

enum { EVENT_NEVER, EVENT_HELD, EVENT_SUBMITTED };

struct sim_event {
    unsigned magic;
    unsigned flags;
    int state;
    int held_records;
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
    uint64_t duration_ns;
    uint64_t argument; /* a copy of the kernel's one argument */
    void *arguments[1];
    union {
        struct abi_kernel_node kernel;
        struct abi_memcpy_node copy;
        struct abi_memset_node set;
        struct abi_host_node host;
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
/* The stream behind a handle, NULL and the two special ones included; 0 or an error. Needs a current context for those.
 */
int stream_resolve(struct sim_stream *handle, struct sim_stream **ret_stream);

/* work.c */
int work_submit(struct sim_stream *stream, struct sim_op op);
int work_call(struct sim_stream *stream, void (*function)(void *), void *user);
/* Waits until all work of the stream so far is done. Called without sim.mutex. */
void work_wait(struct sim_stream *stream);
bool work_done(struct sim_stream *stream);
/* Waits for kernel `number` of this process on the device. Called without sim.mutex. */
void work_wait_number(int device, uint64_t number);
bool work_number_done(int device, uint64_t number);
/* Finds out when a submitted event happened; false while it hasn't. */
bool work_event_time(struct sim_event *event);
void work_wait_change(void);

/* event.c */
void event_record_submitted(struct sim_event *event, int device, uint64_t number);

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
struct sim_function {
    unsigned magic;
    bool busy; /* its argument is its duration */
    struct sim_module *module;
    struct sim_library *library;
    struct sim_function *next;
    int attributes[16];
    char name[];
};
uint64_t function_duration(const struct sim_function *function, void **params, void **extra);

/* copy.c */
/* Does a copy now; 0 or ERR_INVALID_VALUE when an end of it is not memory. sim.mutex is held. */
int copy_run(const struct abi_memcpy3d *copy);
int copy_run_memset(const struct abi_memset_node *set);

#endif

/* Graphs, executable graphs, and what puts nodes into them. Guarded by sim.mutex. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "module.h"

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
        CUDA_KERNEL_NODE_PARAMS kernel;
        CUDA_MEMCPY_NODE_PARAMS copy;
        CUDA_MEMSET_NODE_PARAMS_v2 set;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch; /* its operations are the node's own */
        struct sim_graph *child;
        struct sim_event *event;
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
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
    struct sim_graph *graph; /* its own copy, sorted so that it can be run */
    struct sim_graph
        *origin; /* the graph that it was made from, if that has memory nodes and still exists */
    struct sim_exec *next; /* of those with memory nodes */
    uint64_t memory_bytes; /* the most that its memory nodes hold at once */
    int device;
    int live_allocations;
    struct sim_stream *stream; /* of its last launch */
    uint64_t number;
};

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
int node_set_batch(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch);
/* Takes a kernel's parameters into a node. */
void node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *parameters);

/* graphmem.c */
bool graph_memory_has(const struct sim_graph *graph);
bool graph_memory_instantiated(const struct sim_graph *graph);
void graph_memory_join(struct sim_exec *exec, struct sim_graph *origin);
void graph_memory_leave(struct sim_exec *exec);
void graph_memory_forget(const struct sim_graph *graph);
/* Takes the memory that a run needs. */
int graph_memory_take(struct sim_exec *exec, struct sim_stream *stream);
/* An allocation begins; it ends with graph_memory_free(). */
void graph_memory_live(struct sim_range *range, struct sim_exec *exec);
void graph_memory_free(struct sim_range *range);
int graph_memory_node(struct sim_node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters);

/* capture.c: adds a node after the stream's tips, and makes it the tip. */
int capture_add(struct sim_stream *stream, struct sim_node *node);
int capture_record(struct sim_stream *stream, struct sim_event *event);
int capture_wait(struct sim_stream *stream, struct sim_event *event);
/* The result of a wait for, or a query of, a captured event. The capture is invalidated. */
int capture_asked(struct sim_event *event);

/* memop.c */
int memop_check(const CUstreamBatchMemOpParams *operations, unsigned count, bool old);
int memop_submit(struct sim_stream *stream, const CUstreamBatchMemOpParams *operation);

/* copy.c */
/* A node's copy or memset, in the stream's order. sim.mutex is held. */
int copy_run_node(const struct sim_node *node, struct sim_stream *stream);

#endif

/* Executable graphs: instantiated, launched, updated. */
#include "graph.h"

#include <stdlib.h>

enum { FLAG_AUTO_FREE = 1, FLAG_UPLOAD = 2 };

static struct sim_exec gone; /* owns allocations of executable graphs that were destroyed */

static int instantiate(struct sim_exec **ret_exec, struct sim_graph *graph,
                       unsigned long long flags)
{
    if (!ret_exec || !IS(graph, MAGIC_GRAPH) || flags & ~15ULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_exec *exec = sim_object(sizeof(*exec), MAGIC_EXEC);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    /* a graph with memory nodes can be instantiated once at a time */
    bool again = graph_memory_instantiated(graph);
    exec->graph = again ? NULL : graph_copy(graph);
    if (exec->graph)
        graph_memory_join(exec, graph);
    sim_unlock();
    if (!exec->graph) {
        free(exec);
        return again ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE; /* a cycle */
    }
    exec->flags = flags;
    *ret_exec = exec;
    return CUDA_SUCCESS;
}

API(cuGraphInstantiate, struct sim_exec **ret_exec, struct sim_graph *graph,
    struct sim_node **ret_node, char *log, size_t log_bytes)
{
    ENTER_KERNEL(cuGraphInstantiate);
    (void)ret_node;
    if (log && log_bytes)
        *log = 0;
    return instantiate(ret_exec, graph, 0);
}

API(cuGraphInstantiate_v2, struct sim_exec **ret_exec, struct sim_graph *graph,
    struct sim_node **ret_node, char *log, size_t log_bytes)
{
    ENTER_KERNEL(cuGraphInstantiate_v2);
    (void)ret_node;
    if (log && log_bytes)
        *log = 0;
    return instantiate(ret_exec, graph, 0);
}

API_AS_KERNEL(cuGraphInstantiateWithFlags, instantiate(ret_exec, graph, flags),
              struct sim_exec **ret_exec, struct sim_graph *graph, unsigned long long flags)

static int with_params(struct sim_exec **ret_exec, struct sim_graph *graph,
                       CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    int code = instantiate(ret_exec, graph, parameters->flags);
    parameters->result_out = code ? 1 : 0;
    parameters->hErrNode_out = NULL;
    return code;
}

API_TWINS_KERNEL(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
                 with_params(ret_exec, graph, parameters), struct sim_exec **ret_exec,
                 struct sim_graph *graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)

static int run_batch(const struct sim_node *node, struct sim_stream *stream)
{
    int code = CUDA_SUCCESS;

    for (unsigned at = 0; at < node->u.batch.count && !code; at++)
        code = memop_submit(stream, &node->u.batch.paramArray[at]);
    return code;
}

static int run_alloc(struct sim_exec *exec, const struct sim_node *node)
{
    struct sim_range *range = range_find(node->u.alloc.dptr);

    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    if (!range->owner)
        graph_memory_live(range, exec);
    return CUDA_SUCCESS;
}

static int run_graph(struct sim_exec *exec, struct sim_graph *graph, struct sim_stream *stream);

static int run_node(struct sim_exec *exec, struct sim_node *node, struct sim_stream *stream)
{
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return work_submit(stream, (struct sim_op){.kind = OP_KERNEL, .kernel = node->work});
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return copy_run_node(node, stream);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return run_batch(node, stream);
    case CU_GRAPH_NODE_TYPE_HOST:
        return work_call(stream, node->u.host.fn, node->u.host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return run_graph(exec, node->u.child, stream);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return work_submit(stream, (struct sim_op){.kind = OP_WAIT, .event = node->u.event});
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return work_submit(stream, (struct sim_op){.kind = OP_RECORD, .event = node->u.event});
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return run_alloc(exec, node);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return address_free(node->u.release, 0);
    default:
        return CUDA_SUCCESS;
    }
}

static int run_graph(struct sim_exec *exec, struct sim_graph *graph, struct sim_stream *stream)
{
    int code = CUDA_SUCCESS;

    for (int at = 0; at < graph->nodes.count && !code; at++) {
        if (graph->nodes.list[at]->enabled)
            code = run_node(exec, graph->nodes.list[at], stream);
    }
    return code;
}

/* Frees what the graph allocated, unless it was freed, or leaves it to another owner. */
static void free_allocations(struct sim_exec *exec, const struct sim_graph *graph,
                             struct sim_exec *heir)
{
    for (int at = 0; at < graph->nodes.count && exec->live_allocations; at++) {
        const struct sim_node *node = graph->nodes.list[at];
        struct sim_range *range =
            node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? range_find(node->u.alloc.dptr) : NULL;
        if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
            free_allocations(exec, node->u.child, heir);
        if (!range || range->owner != exec)
            continue;
        if (heir) {
            range->owner = heir;
            heir->live_allocations++;
            exec->live_allocations--;
        } else {
            graph_memory_free(range);
        }
    }
}

static int launch_locked(struct sim_exec *exec, struct sim_stream *stream)
{
    if (exec->live_allocations && !(exec->flags & FLAG_AUTO_FREE))
        return CUDA_ERROR_INVALID_VALUE;
    free_allocations(exec, exec->graph, NULL);
    TRY(graph_memory_take(exec, stream));
    int code = run_graph(exec, exec->graph, stream);
    exec->stream = stream;
    exec->number = stream->last;
    return code;
}

static int capture_child(struct sim_stream *stream, struct sim_exec *exec)
{
    sim_lock();
    int code = capture_check(stream);
    struct sim_node *node =
        code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_GRAPH);
    if (node) {
        node->u.child = graph_copy(exec->graph);
        code = node->u.child ? capture_add(stream, node) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return code;
}

static int launch(struct sim_exec *exec, struct sim_stream *handle)
{
    if (!IS(exec, MAGIC_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    NEED_STREAM(stream, handle);
    if (stream_captures(stream))
        return capture_child(stream, exec);
    int code = capture_legacy_check(stream);
    if (code || (sim.noop && !exec->memory_bytes))
        return code;
    sim_lock();
    work_room(stream);
    code = launch_locked(exec, stream);
    sim_unlock();
    return code;
}

API_PTSZ(cuGraphLaunch, launch(exec, stream), struct sim_exec *exec, struct sim_stream *stream)

/* An upload takes the memory that a launch would. */
static int upload(struct sim_exec *exec, struct sim_stream *handle)
{
    if (!IS(exec, MAGIC_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    NEED_STREAM(stream, handle);
    sim_lock();
    int code = graph_memory_take(exec, stream);
    sim_unlock();
    return code;
}

API_PTSZ(cuGraphUpload, upload(exec, stream), struct sim_exec *exec, struct sim_stream *stream)

API(cuGraphExecDestroy, struct sim_exec *exec)
{
    ENTER(cuGraphExecDestroy);
    if (!IS(exec, MAGIC_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    graph_memory_leave(exec);
    free_allocations(exec, exec->graph, &gone);
    graph_free(exec->graph);
    handle_retire(exec);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuGraphExecGetFlags, struct sim_exec *exec, uint64_t *ret_flags)
{
    ENTER(cuGraphExecGetFlags);
    if (!IS(exec, MAGIC_EXEC) || !ret_flags)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_flags = exec->flags;
    return CUDA_SUCCESS;
}

/* True when the graphs have the same nodes in the same places. */
static bool same_shape(const struct sim_graph *one, const struct sim_graph *two)
{
    if (one->nodes.count != two->nodes.count)
        return false;
    for (int at = 0; at < one->nodes.count; at++) {
        const struct sim_node *a = one->nodes.list[at], *b = two->nodes.list[at];
        if (a->type != b->type || a->needs.count != b->needs.count)
            return false;
        if (a->type == CU_GRAPH_NODE_TYPE_GRAPH && !same_shape(a->u.child, b->u.child))
            return false;
    }
    return true;
}

/* The new graph's copy takes the old one's place. Node handles stay those of the first graph. */
static int update_locked(struct sim_exec *exec, struct sim_graph *graph)
{
    struct sim_graph *copy = graph_copy(graph);

    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!same_shape(exec->graph, copy)) {
        graph_free(copy);
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    for (int at = 0; at < copy->nodes.count; at++)
        copy->nodes.list[at]->source = exec->graph->nodes.list[at]->source;
    graph_free(exec->graph);
    exec->graph = copy;
    return CUDA_SUCCESS;
}

static int update(struct sim_exec *exec, struct sim_graph *graph)
{
    if (!IS(exec, MAGIC_EXEC) || !IS(graph, MAGIC_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = update_locked(exec, graph);
    sim_unlock();
    return code;
}

API(cuGraphExecUpdate, struct sim_exec *exec, struct sim_graph *graph, struct sim_node **ret_node,
    CUgraphExecUpdateResult *ret_result)
{
    ENTER(cuGraphExecUpdate);
    int code = update(exec, graph);
    if (ret_node)
        *ret_node = NULL;
    if (ret_result)
        *ret_result = code ? 2 : 0; /* topology changed */
    return code;
}

API(cuGraphExecUpdate_v2, struct sim_exec *exec, struct sim_graph *graph,
    CUgraphExecUpdateResultInfo *ret_info)
{
    ENTER(cuGraphExecUpdate_v2);
    int code = update(exec, graph);
    if (ret_info)
        *ret_info = (CUgraphExecUpdateResultInfo){code ? 2 : 0, NULL, NULL};
    return code;
}

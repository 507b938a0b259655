/* Nodes of every kind: adding them, reading and changing their parameters. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_V1_BYTES sizeof(CUDA_KERNEL_NODE_PARAMS_v1)
#define MEMSET_V1_BYTES sizeof(CUDA_MEMSET_NODE_PARAMS)

/* A node of a graph's own kind, with its dependencies; sim.mutex is held. */
static int add_locked(struct sim_node **ret_node, struct sim_graph *graph,
                      struct sim_node *const *needs, size_t count, int type)
{
    if (!ret_node || !IS(graph, MAGIC_GRAPH) || (count && !needs))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < count; at++) {
        if (!IS(needs[at], MAGIC_NODE) || needs[at]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_node *node = node_new(graph, type);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_node = node;
    return node_depend(node, needs, count);
}

/* Sets a node's parameters; those of memory nodes do not change. */
static int set_locked(struct sim_node *node, const void *parameters)
{
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS *kernel = parameters;
        struct sim_function *function = kernel->func ? kernel->func : kernel->kern;
        if (!IS(function, MAGIC_FUNCTION))
            return CUDA_ERROR_INVALID_VALUE;
        node_set_kernel(node, kernel);
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        node->u.copy.copyParams = *(const CUDA_MEMCPY3D *)parameters;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        node->u.set = *(const CUDA_MEMSET_NODE_PARAMS_v2 *)parameters;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        node->u.host = *(const CUDA_HOST_NODE_PARAMS *)parameters;
        return node->u.host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        node->u.event = (struct sim_event *)parameters;
        return IS(node->u.event, MAGIC_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_GRAPH: {
        struct sim_graph *child = (struct sim_graph *)parameters;
        if (!IS(child, MAGIC_GRAPH))
            return CUDA_ERROR_INVALID_VALUE;
        node->u.child = graph_copy(child);
        return node->u.child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch = parameters;
        CUstreamBatchMemOpParams *old = node->u.batch.paramArray;
        int code = batch->flags ? CUDA_ERROR_INVALID_VALUE
                                : memop_check(batch->paramArray, batch->count, false);
        if (!code)
            code = node_set_batch(node, batch);
        if (!code)
            free(old);
        return code;
    }
    default:
        return CUDA_SUCCESS;
    }
}

/* Sets a new node's parameters, which for memory nodes never change. */
static int init_locked(struct sim_node *node, const void *parameters)
{
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return graph_memory_node(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)parameters);
    if (node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return set_locked(node, parameters);
    node->u.release = *(const devptr *)parameters;
    const struct sim_range *range = range_find(node->u.release);
    return range && range->what == RANGE_GRAPH && range->base == node->u.release
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static int add(struct sim_node **ret_node, struct sim_graph *graph, struct sim_node *const *needs,
               size_t count, int type, const void *parameters)
{
    struct sim_node *node = NULL;

    if (!parameters && type != CU_GRAPH_NODE_TYPE_EMPTY)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = add_locked(ret_node ? &node : NULL, graph, needs, count, type);
    if (!code)
        code = init_locked(node, parameters);
    if (code && node) {
        if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
            node->type = CU_GRAPH_NODE_TYPE_EMPTY;
        nodes_remove(&graph->nodes, node);
        nodes_clear(&node->needs);
        handle_retire(node);
    }
    sim_unlock();
    if (!code)
        *ret_node = node;
    return code;
}

static int get(struct sim_node *node, int type, void *ret_parameters, size_t bytes)
{
    if (!IS(node, MAGIC_NODE) || node->type != type || !ret_parameters)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(ret_parameters,
           type == CU_GRAPH_NODE_TYPE_MEMCPY ? (void *)&node->u.copy.copyParams : (void *)&node->u,
           bytes);
    return CUDA_SUCCESS;
}

static int set(struct sim_node *node, int type, const void *parameters)
{
    if (!IS(node, MAGIC_NODE) || node->type != type || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = set_locked(node, parameters);
    sim_unlock();
    return code;
}

/* The node of an executable graph that was made from the given one. */
static struct sim_node *exec_node(struct sim_exec *exec, struct sim_node *source)
{
    if (!IS(exec, MAGIC_EXEC) || !source)
        return NULL;
    for (int at = 0; at < exec->graph->nodes.count; at++) {
        if (exec->graph->nodes.list[at]->source == source)
            return exec->graph->nodes.list[at];
    }
    return NULL;
}

static int set_exec(struct sim_exec *exec, struct sim_node *source, int type,
                    const void *parameters)
{
    struct sim_node *node = exec_node(exec, source);

    return node ? set(node, type, parameters) : CUDA_ERROR_INVALID_VALUE;
}

/* Parameters of the first ABI, which end early, in a struct of zeros. */
static const void *widen(void *wide, const void *parameters, size_t bytes)
{
    return parameters ? memcpy(wide, parameters, bytes) : NULL;
}
#define WIDE_KERNEL widen(&(CUDA_KERNEL_NODE_PARAMS){0}, parameters, KERNEL_V1_BYTES)
#define WIDE_MEMSET widen(&(CUDA_MEMSET_NODE_PARAMS_v2){0}, parameters, MEMSET_V1_BYTES)

#define NEEDS                                                                                      \
    struct sim_node **ret_node, struct sim_graph *graph, struct sim_node *const *needs, size_t count

API_AS(cuGraphAddKernelNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, WIDE_KERNEL), NEEDS,
       const void *parameters)

API_AS(cuGraphAddKernelNode_v2,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, parameters), NEEDS,
       const CUDA_KERNEL_NODE_PARAMS *parameters)
API_AS(cuGraphKernelNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_KERNEL, ret_parameters, KERNEL_V1_BYTES), struct sim_node *node,
       void *ret_parameters)
API_AS(cuGraphKernelNodeGetParams_v2,
       get(node, CU_GRAPH_NODE_TYPE_KERNEL, ret_parameters, sizeof(*ret_parameters)),
       struct sim_node *node, CUDA_KERNEL_NODE_PARAMS *ret_parameters)

API_AS(cuGraphKernelNodeSetParams, set(node, CU_GRAPH_NODE_TYPE_KERNEL, WIDE_KERNEL),
       struct sim_node *node, const void *parameters)

API_AS(cuGraphKernelNodeSetParams_v2, set(node, CU_GRAPH_NODE_TYPE_KERNEL, parameters),
       struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *parameters)

API_AS(cuGraphExecKernelNodeSetParams, set_exec(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, WIDE_KERNEL),
       struct sim_exec *exec, struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)

API_AS(cuGraphExecKernelNodeSetParams_v2,
       set_exec(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, parameters), struct sim_exec *exec,
       struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *parameters)
API_AS(cuGraphAddMemcpyNode, add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY, copy),
       NEEDS, const CUDA_MEMCPY3D *copy, struct sim_context *context)
API_AS(cuGraphMemcpyNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_MEMCPY, ret_copy, sizeof(*ret_copy)), struct sim_node *node,
       CUDA_MEMCPY3D *ret_copy)
API_AS(cuGraphMemcpyNodeSetParams, set(node, CU_GRAPH_NODE_TYPE_MEMCPY, copy),
       struct sim_node *node, const CUDA_MEMCPY3D *copy)
API_AS(cuGraphExecMemcpyNodeSetParams, set_exec(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, copy),
       struct sim_exec *exec, struct sim_node *node, const CUDA_MEMCPY3D *copy,
       struct sim_context *context)

API_AS(cuGraphAddMemsetNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMSET, WIDE_MEMSET), NEEDS,
       const CUDA_MEMSET_NODE_PARAMS *parameters, struct sim_context *context)

API_AS(cuGraphMemsetNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_MEMSET, ret_parameters, MEMSET_V1_BYTES), struct sim_node *node,
       void *ret_parameters)

API_AS(cuGraphMemsetNodeSetParams, set(node, CU_GRAPH_NODE_TYPE_MEMSET, WIDE_MEMSET),
       struct sim_node *node, const void *parameters)

API_AS(cuGraphExecMemsetNodeSetParams, set_exec(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, WIDE_MEMSET),
       struct sim_exec *exec, struct sim_node *node, const CUDA_MEMSET_NODE_PARAMS *parameters,
       struct sim_context *context)

API_AS(cuGraphAddHostNode, add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_HOST, parameters),
       NEEDS, const CUDA_HOST_NODE_PARAMS *parameters)
API_AS(cuGraphHostNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_HOST, ret_parameters, sizeof(*ret_parameters)),
       struct sim_node *node, CUDA_HOST_NODE_PARAMS *ret_parameters)
API_AS(cuGraphHostNodeSetParams, set(node, CU_GRAPH_NODE_TYPE_HOST, parameters),
       struct sim_node *node, const CUDA_HOST_NODE_PARAMS *parameters)
API_AS(cuGraphExecHostNodeSetParams, set_exec(exec, node, CU_GRAPH_NODE_TYPE_HOST, parameters),
       struct sim_exec *exec, struct sim_node *node, const CUDA_HOST_NODE_PARAMS *parameters)
API_AS(cuGraphAddEmptyNode, add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, NULL),
       NEEDS)
API_AS(cuGraphAddChildGraphNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_GRAPH, child), NEEDS,
       struct sim_graph *child)
API_AS(cuGraphChildGraphNodeGetGraph,
       get(node, CU_GRAPH_NODE_TYPE_GRAPH, ret_graph, sizeof(*ret_graph)), struct sim_node *node,
       struct sim_graph **ret_graph)
API_AS(cuGraphAddEventRecordNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event), NEEDS,
       struct sim_event *event)
API_AS(cuGraphAddEventWaitNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event), NEEDS,
       struct sim_event *event)
API_AS(cuGraphEventRecordNodeGetEvent,
       get(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, ret_event, sizeof(*ret_event)),
       struct sim_node *node, struct sim_event **ret_event)
API_AS(cuGraphEventWaitNodeGetEvent,
       get(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, ret_event, sizeof(*ret_event)),
       struct sim_node *node, struct sim_event **ret_event)
API_AS(cuGraphEventRecordNodeSetEvent, set(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event),
       struct sim_node *node, struct sim_event *event)
API_AS(cuGraphEventWaitNodeSetEvent, set(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event),
       struct sim_node *node, struct sim_event *event)
API_AS(cuGraphAddBatchMemOpNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, parameters), NEEDS,
       const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)
API_AS(cuGraphBatchMemOpNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, ret_parameters, sizeof(*ret_parameters)),
       struct sim_node *node, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret_parameters)
API_AS(cuGraphBatchMemOpNodeSetParams, set(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, parameters),
       struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)
API_AS(cuGraphExecBatchMemOpNodeSetParams,
       set_exec(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, parameters), struct sim_exec *exec,
       struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)

API_AS(cuGraphAddMemAllocNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, parameters), NEEDS,
       CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
API_AS(cuGraphMemAllocNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, ret_parameters, sizeof(*ret_parameters)),
       struct sim_node *node, CUDA_MEM_ALLOC_NODE_PARAMS *ret_parameters)

API_AS(cuGraphAddMemFreeNode,
       add(ret_node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_FREE, &address), NEEDS,
       devptr address)
API_AS(cuGraphMemFreeNodeGetParams,
       get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, ret_address, sizeof(*ret_address)),
       struct sim_node *node, devptr *ret_address)

/* The parameters of a kind inside CUgraphNodeParams, as the kind's own calls take them. */
static const void *inner(CUgraphNodeParams *parameters)
{
    switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return &parameters->memcpy.copyParams;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return parameters->graph.graph;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return parameters->eventRecord.event;
    default:
        return &parameters->kernel;
    }
}

static int add_any(NEEDS, CUgraphNodeParams *parameters)
{
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    int type = (int)parameters->type;
    bool semaphores = type > CU_GRAPH_NODE_TYPE_EVENT_RECORD && type < CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    return type < 0 || type > CU_GRAPH_NODE_TYPE_BATCH_MEM_OP || semaphores
               ? CUDA_ERROR_NOT_SUPPORTED
               : add(ret_node, graph, needs, count, type, inner(parameters));
}

API_AS(cuGraphAddNode, add_any(ret_node, graph, needs, count, parameters), NEEDS,
       CUgraphNodeParams *parameters)
API_AS(cuGraphAddNode_v2, add_any(ret_node, graph, needs, count, parameters),
       struct sim_node **ret_node, struct sim_graph *graph, const CUgraphNode *needs,
       const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
API_AS(cuGraphNodeSetParams,
       parameters ? set(node, parameters->type, inner(parameters)) : CUDA_ERROR_INVALID_VALUE,
       struct sim_node *node, CUgraphNodeParams *parameters)
API_AS(cuGraphExecNodeSetParams,
       parameters ? set_exec(exec, node, parameters->type, inner(parameters))
                  : CUDA_ERROR_INVALID_VALUE,
       struct sim_exec *exec, struct sim_node *node, CUgraphNodeParams *parameters)
API_AS(cuGraphExecEventRecordNodeSetEvent,
       set_exec(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event), struct sim_exec *exec,
       struct sim_node *node, struct sim_event *event)
API_AS(cuGraphExecEventWaitNodeSetEvent, set_exec(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event),
       struct sim_exec *exec, struct sim_node *node, struct sim_event *event)
API_AS(cuGraphExecChildGraphNodeSetParams, set_exec(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, child),
       struct sim_exec *exec, struct sim_node *node, struct sim_graph *child)

API(cuGraphNodeSetEnabled, struct sim_exec *exec, struct sim_node *source, unsigned enabled)
{
    ENTER(cuGraphNodeSetEnabled);
    struct sim_node *node = exec_node(exec, source);
    if (!node || node->type > CU_GRAPH_NODE_TYPE_MEMSET)
        return CUDA_ERROR_INVALID_VALUE;
    node->enabled = enabled != 0;
    return CUDA_SUCCESS;
}

API(cuGraphNodeGetEnabled, struct sim_exec *exec, struct sim_node *source, unsigned *ret_enabled)
{
    ENTER(cuGraphNodeGetEnabled);
    struct sim_node *node = exec_node(exec, source);
    if (!node || !ret_enabled || node->type > CU_GRAPH_NODE_TYPE_MEMSET)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_enabled = node->enabled;
    return CUDA_SUCCESS;
}

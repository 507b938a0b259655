/* Nodes of every kind: adding them, reading and changing their parameters. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_V1_BYTES offsetof(struct abi_kernel_node, kernel)
#define MEMSET_V1_BYTES offsetof(struct abi_memset_node, context)

/* A node of a graph's own kind, with its dependencies; sim.mutex is held. */
static int add_locked(struct sim_node **ret_node, struct sim_graph *graph,
                      struct sim_node *const *needs, size_t count, int type)
{
    if (!ret_node || !IS(graph, MAGIC_GRAPH) || (count && !needs))
        return ERR_INVALID_VALUE;
    for (size_t at = 0; at < count; at++) {
        if (!IS(needs[at], MAGIC_NODE) || needs[at]->graph != graph)
            return ERR_INVALID_VALUE;
    }
    struct sim_node *node = node_new(graph, type);
    if (!node)
        return ERR_OUT_OF_MEMORY;
    *ret_node = node;
    return node_depend(node, needs, count);
}

/* Takes parameters into a node; for all kinds but memory nodes. */
static int set_locked(struct sim_node *node, const void *parameters)
{
    switch (node->type) {
    case NODE_KERNEL: {
        const struct abi_kernel_node *kernel = parameters;
        struct sim_function *function = kernel->function ? kernel->function : kernel->kernel;
        if (!IS(function, MAGIC_FUNCTION))
            return ERR_INVALID_VALUE;
        node_set_kernel(node, kernel);
        return OK;
    }
    case NODE_MEMCPY:
        node->u.copy.copy = *(const struct abi_memcpy3d *)parameters;
        return OK;
    case NODE_MEMSET:
        node->u.set = *(const struct abi_memset_node *)parameters;
        return OK;
    case NODE_HOST:
        node->u.host = *(const struct abi_host_node *)parameters;
        return node->u.host.function ? OK : ERR_INVALID_VALUE;
    case NODE_EVENT_RECORD:
    case NODE_EVENT_WAIT:
        node->u.event = (struct sim_event *)parameters;
        return IS(node->u.event, MAGIC_EVENT) ? OK : ERR_INVALID_HANDLE;
    case NODE_CHILD: {
        struct sim_graph *child = (struct sim_graph *)parameters;
        if (!IS(child, MAGIC_GRAPH))
            return ERR_INVALID_VALUE;
        node->u.child = graph_copy(child);
        return node->u.child ? OK : ERR_OUT_OF_MEMORY;
    }
    case NODE_BATCH: {
        const struct abi_batch_node *batch = parameters;
        struct abi_memop *old = node->u.batch.operations;
        int code =
            batch->flags ? ERR_INVALID_VALUE : memop_check(batch->operations, batch->count, false);
        if (!code)
            code = node_set_batch(node, batch);
        if (!code)
            free(old);
        return code;
    }
    default:
        return OK;
    }
}

static int add(struct sim_node **ret_node, struct sim_graph *graph, struct sim_node *const *needs,
               size_t count, int type, const void *parameters)
{
    struct sim_node *node = NULL;

    if (!parameters && type != NODE_EMPTY)
        return ERR_INVALID_VALUE;
    sim_lock();
    int code = add_locked(ret_node ? &node : NULL, graph, needs, count, type);
    if (!code)
        code = set_locked(node, parameters);
    if (code && node) {
        if (node->type == NODE_CHILD)
            node->type = NODE_EMPTY;
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
        return ERR_INVALID_VALUE;
    memcpy(ret_parameters, type == NODE_MEMCPY ? (void *)&node->u.copy.copy : (void *)&node->u,
           bytes);
    return OK;
}

static int set(struct sim_node *node, int type, const void *parameters)
{
    if (!IS(node, MAGIC_NODE) || node->type != type || !parameters)
        return ERR_INVALID_VALUE;
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

    return node ? set(node, type, parameters) : ERR_INVALID_VALUE;
}

/* The first ABI's kernel parameters end before the kernel and the context. */
static const void *widen_kernel(struct abi_kernel_node *wide, const void *parameters)
{
    if (!parameters)
        return NULL;
    memset(wide, 0, sizeof(*wide));
    memcpy(wide, parameters, KERNEL_V1_BYTES);
    return wide;
}

static const void *widen_memset(struct abi_memset_node *wide, const void *parameters)
{
    if (!parameters)
        return NULL;
    memset(wide, 0, sizeof(*wide));
    memcpy(wide, parameters, MEMSET_V1_BYTES);
    return wide;
}

#define NEEDS                                                                                      \
    struct sim_node **ret_node, struct sim_graph *graph, struct sim_node *const *needs, size_t count

API(cuGraphAddKernelNode, NEEDS, const void *parameters)
{
    struct abi_kernel_node wide;

    ENTER(cuGraphAddKernelNode);
    return add(ret_node, graph, needs, count, NODE_KERNEL, widen_kernel(&wide, parameters));
}

API_AS(cuGraphAddKernelNode_v2, add(ret_node, graph, needs, count, NODE_KERNEL, parameters), NEEDS,
       const struct abi_kernel_node *parameters)
API_AS(cuGraphKernelNodeGetParams, get(node, NODE_KERNEL, ret_parameters, KERNEL_V1_BYTES),
       struct sim_node *node, void *ret_parameters)
API_AS(cuGraphKernelNodeGetParams_v2,
       get(node, NODE_KERNEL, ret_parameters, sizeof(*ret_parameters)), struct sim_node *node,
       struct abi_kernel_node *ret_parameters)

API(cuGraphKernelNodeSetParams, struct sim_node *node, const void *parameters)
{
    struct abi_kernel_node wide;

    ENTER(cuGraphKernelNodeSetParams);
    return set(node, NODE_KERNEL, widen_kernel(&wide, parameters));
}

API_AS(cuGraphKernelNodeSetParams_v2, set(node, NODE_KERNEL, parameters), struct sim_node *node,
       const struct abi_kernel_node *parameters)

API(cuGraphExecKernelNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const void *parameters)
{
    struct abi_kernel_node wide;

    ENTER(cuGraphExecKernelNodeSetParams);
    return set_exec(exec, node, NODE_KERNEL, widen_kernel(&wide, parameters));
}

API_AS(cuGraphExecKernelNodeSetParams_v2, set_exec(exec, node, NODE_KERNEL, parameters),
       struct sim_exec *exec, struct sim_node *node, const struct abi_kernel_node *parameters)
API_AS(cuGraphAddMemcpyNode, add(ret_node, graph, needs, count, NODE_MEMCPY, copy), NEEDS,
       const struct abi_memcpy3d *copy, struct sim_context *context)
API_AS(cuGraphMemcpyNodeGetParams, get(node, NODE_MEMCPY, ret_copy, sizeof(*ret_copy)),
       struct sim_node *node, struct abi_memcpy3d *ret_copy)
API_AS(cuGraphMemcpyNodeSetParams, set(node, NODE_MEMCPY, copy), struct sim_node *node,
       const struct abi_memcpy3d *copy)
API_AS(cuGraphExecMemcpyNodeSetParams, set_exec(exec, node, NODE_MEMCPY, copy),
       struct sim_exec *exec, struct sim_node *node, const struct abi_memcpy3d *copy,
       struct sim_context *context)

API(cuGraphAddMemsetNode, NEEDS, const void *parameters, struct sim_context *context)
{
    struct abi_memset_node wide;

    ENTER(cuGraphAddMemsetNode);
    (void)context;
    return add(ret_node, graph, needs, count, NODE_MEMSET, widen_memset(&wide, parameters));
}

API_AS(cuGraphMemsetNodeGetParams, get(node, NODE_MEMSET, ret_parameters, MEMSET_V1_BYTES),
       struct sim_node *node, void *ret_parameters)

API(cuGraphMemsetNodeSetParams, struct sim_node *node, const void *parameters)
{
    struct abi_memset_node wide;

    ENTER(cuGraphMemsetNodeSetParams);
    return set(node, NODE_MEMSET, widen_memset(&wide, parameters));
}

API(cuGraphExecMemsetNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const void *parameters, struct sim_context *context)
{
    struct abi_memset_node wide;

    ENTER(cuGraphExecMemsetNodeSetParams);
    (void)context;
    return set_exec(exec, node, NODE_MEMSET, widen_memset(&wide, parameters));
}

API_AS(cuGraphAddHostNode, add(ret_node, graph, needs, count, NODE_HOST, parameters), NEEDS,
       const struct abi_host_node *parameters)
API_AS(cuGraphHostNodeGetParams, get(node, NODE_HOST, ret_parameters, sizeof(*ret_parameters)),
       struct sim_node *node, struct abi_host_node *ret_parameters)
API_AS(cuGraphHostNodeSetParams, set(node, NODE_HOST, parameters), struct sim_node *node,
       const struct abi_host_node *parameters)
API_AS(cuGraphExecHostNodeSetParams, set_exec(exec, node, NODE_HOST, parameters),
       struct sim_exec *exec, struct sim_node *node, const struct abi_host_node *parameters)
API_AS(cuGraphAddEmptyNode, add(ret_node, graph, needs, count, NODE_EMPTY, NULL), NEEDS)
API_AS(cuGraphAddChildGraphNode, add(ret_node, graph, needs, count, NODE_CHILD, child), NEEDS,
       struct sim_graph *child)
API_AS(cuGraphChildGraphNodeGetGraph, get(node, NODE_CHILD, ret_graph, sizeof(*ret_graph)),
       struct sim_node *node, struct sim_graph **ret_graph)
API_AS(cuGraphAddEventRecordNode, add(ret_node, graph, needs, count, NODE_EVENT_RECORD, event),
       NEEDS, struct sim_event *event)
API_AS(cuGraphAddEventWaitNode, add(ret_node, graph, needs, count, NODE_EVENT_WAIT, event), NEEDS,
       struct sim_event *event)
API_AS(cuGraphEventRecordNodeGetEvent, get(node, NODE_EVENT_RECORD, ret_event, sizeof(*ret_event)),
       struct sim_node *node, struct sim_event **ret_event)
API_AS(cuGraphEventWaitNodeGetEvent, get(node, NODE_EVENT_WAIT, ret_event, sizeof(*ret_event)),
       struct sim_node *node, struct sim_event **ret_event)
API_AS(cuGraphEventRecordNodeSetEvent, set(node, NODE_EVENT_RECORD, event), struct sim_node *node,
       struct sim_event *event)
API_AS(cuGraphEventWaitNodeSetEvent, set(node, NODE_EVENT_WAIT, event), struct sim_node *node,
       struct sim_event *event)
API_AS(cuGraphAddBatchMemOpNode, add(ret_node, graph, needs, count, NODE_BATCH, parameters), NEEDS,
       const struct abi_batch_node *parameters)
API_AS(cuGraphBatchMemOpNodeGetParams,
       get(node, NODE_BATCH, ret_parameters, sizeof(*ret_parameters)), struct sim_node *node,
       struct abi_batch_node *ret_parameters)
API_AS(cuGraphBatchMemOpNodeSetParams, set(node, NODE_BATCH, parameters), struct sim_node *node,
       const struct abi_batch_node *parameters)
API_AS(cuGraphExecBatchMemOpNodeSetParams, set_exec(exec, node, NODE_BATCH, parameters),
       struct sim_exec *exec, struct sim_node *node, const struct abi_batch_node *parameters)

static int add_alloc(NEEDS, struct abi_mem_alloc_node *parameters)
{
    struct sim_node *node = NULL;

    if (!parameters || !parameters->bytes)
        return ERR_INVALID_VALUE;
    sim_lock();
    int code = add_locked(ret_node ? &node : NULL, graph, needs, count, NODE_MEM_ALLOC);
    if (!code)
        code = graph_memory_node(node, parameters);
    if (code && node) {
        nodes_remove(&graph->nodes, node);
        nodes_clear(&node->needs);
        handle_retire(node);
    }
    sim_unlock();
    if (!code)
        *ret_node = node;
    return code;
}

API_AS(cuGraphAddMemAllocNode, add_alloc(ret_node, graph, needs, count, parameters), NEEDS,
       struct abi_mem_alloc_node *parameters)
API_AS(cuGraphMemAllocNodeGetParams,
       get(node, NODE_MEM_ALLOC, ret_parameters, sizeof(*ret_parameters)), struct sim_node *node,
       struct abi_mem_alloc_node *ret_parameters)

static int add_free(NEEDS, devptr address)
{
    struct sim_range *range = range_find(address);

    if (!range || range->what != RANGE_GRAPH || range->base != address)
        return ERR_INVALID_VALUE;
    int code = add(ret_node, graph, needs, count, NODE_MEM_FREE, &address);
    if (!code)
        (*ret_node)->u.release = address;
    return code;
}

API_AS(cuGraphAddMemFreeNode, add_free(ret_node, graph, needs, count, address), NEEDS,
       devptr address)
API_AS(cuGraphMemFreeNodeGetParams, get(node, NODE_MEM_FREE, ret_address, sizeof(*ret_address)),
       struct sim_node *node, devptr *ret_address)

/* The parameters of a kind inside CUgraphNodeParams, as the kind's own calls take them. */
static const void *inner(struct abi_node_params *parameters)
{
    switch (parameters->type) {
    case NODE_MEMCPY:
        return &parameters->u.copy.copy;
    case NODE_CHILD:
        return parameters->u.child.graph;
    case NODE_EVENT_RECORD:
    case NODE_EVENT_WAIT:
        return parameters->u.event.event;
    default:
        return &parameters->u;
    }
}

static int add_any(NEEDS, struct abi_node_params *parameters)
{
    if (!parameters)
        return ERR_INVALID_VALUE;
    switch (parameters->type) {
    case NODE_KERNEL:
    case NODE_MEMCPY:
    case NODE_MEMSET:
    case NODE_HOST:
    case NODE_CHILD:
    case NODE_EMPTY:
    case NODE_EVENT_WAIT:
    case NODE_EVENT_RECORD:
    case NODE_BATCH:
        return add(ret_node, graph, needs, count, parameters->type, inner(parameters));
    case NODE_MEM_ALLOC:
        return add_alloc(ret_node, graph, needs, count, &parameters->u.alloc);
    case NODE_MEM_FREE:
        return add_free(ret_node, graph, needs, count, parameters->u.release.address);
    default:
        return ERR_NOT_SUPPORTED;
    }
}

API_AS(cuGraphAddNode, add_any(ret_node, graph, needs, count, parameters), NEEDS,
       struct abi_node_params *parameters)
API_AS(cuGraphAddNode_v2, add_any(ret_node, graph, needs, count, parameters),
       struct sim_node **ret_node, struct sim_graph *graph, struct sim_node *const *needs,
       const struct abi_edge_data *edges, size_t count, struct abi_node_params *parameters)
API_AS(cuGraphNodeSetParams,
       parameters ? set(node, parameters->type, inner(parameters)) : ERR_INVALID_VALUE,
       struct sim_node *node, struct abi_node_params *parameters)
API_AS(cuGraphExecNodeSetParams,
       parameters ? set_exec(exec, node, parameters->type, inner(parameters)) : ERR_INVALID_VALUE,
       struct sim_exec *exec, struct sim_node *node, struct abi_node_params *parameters)
API_AS(cuGraphExecEventRecordNodeSetEvent, set_exec(exec, node, NODE_EVENT_RECORD, event),
       struct sim_exec *exec, struct sim_node *node, struct sim_event *event)
API_AS(cuGraphExecEventWaitNodeSetEvent, set_exec(exec, node, NODE_EVENT_WAIT, event),
       struct sim_exec *exec, struct sim_node *node, struct sim_event *event)
API_AS(cuGraphExecChildGraphNodeSetParams, set_exec(exec, node, NODE_CHILD, child),
       struct sim_exec *exec, struct sim_node *node, struct sim_graph *child)

API(cuGraphNodeSetEnabled, struct sim_exec *exec, struct sim_node *source, unsigned enabled)
{
    ENTER(cuGraphNodeSetEnabled);
    struct sim_node *node = exec_node(exec, source);
    if (!node || node->type > NODE_MEMSET)
        return ERR_INVALID_VALUE;
    node->enabled = enabled != 0;
    return OK;
}

API(cuGraphNodeGetEnabled, struct sim_exec *exec, struct sim_node *source, unsigned *ret_enabled)
{
    ENTER(cuGraphNodeGetEnabled);
    struct sim_node *node = exec_node(exec, source);
    if (!node || !ret_enabled || node->type > NODE_MEMSET)
        return ERR_INVALID_VALUE;
    *ret_enabled = node->enabled;
    return OK;
}

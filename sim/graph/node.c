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

API(cuGraphAddKernelNode_v2, NEEDS, const struct abi_kernel_node *parameters)
{
    ENTER(cuGraphAddKernelNode_v2);
    return add(ret_node, graph, needs, count, NODE_KERNEL, parameters);
}

API(cuGraphKernelNodeGetParams, struct sim_node *node, void *ret_parameters)
{
    ENTER(cuGraphKernelNodeGetParams);
    return get(node, NODE_KERNEL, ret_parameters, KERNEL_V1_BYTES);
}

API(cuGraphKernelNodeGetParams_v2, struct sim_node *node, struct abi_kernel_node *ret_parameters)
{
    ENTER(cuGraphKernelNodeGetParams_v2);
    return get(node, NODE_KERNEL, ret_parameters, sizeof(*ret_parameters));
}

API(cuGraphKernelNodeSetParams, struct sim_node *node, const void *parameters)
{
    struct abi_kernel_node wide;

    ENTER(cuGraphKernelNodeSetParams);
    return set(node, NODE_KERNEL, widen_kernel(&wide, parameters));
}

API(cuGraphKernelNodeSetParams_v2, struct sim_node *node, const struct abi_kernel_node *parameters)
{
    ENTER(cuGraphKernelNodeSetParams_v2);
    return set(node, NODE_KERNEL, parameters);
}

API(cuGraphExecKernelNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const void *parameters)
{
    struct abi_kernel_node wide;

    ENTER(cuGraphExecKernelNodeSetParams);
    return set_exec(exec, node, NODE_KERNEL, widen_kernel(&wide, parameters));
}

API(cuGraphExecKernelNodeSetParams_v2, struct sim_exec *exec, struct sim_node *node,
    const struct abi_kernel_node *parameters)
{
    ENTER(cuGraphExecKernelNodeSetParams_v2);
    return set_exec(exec, node, NODE_KERNEL, parameters);
}

API(cuGraphAddMemcpyNode, NEEDS, const struct abi_memcpy3d *copy, struct sim_context *context)
{
    ENTER(cuGraphAddMemcpyNode);
    (void)context;
    return add(ret_node, graph, needs, count, NODE_MEMCPY, copy);
}

API(cuGraphMemcpyNodeGetParams, struct sim_node *node, struct abi_memcpy3d *ret_copy)
{
    ENTER(cuGraphMemcpyNodeGetParams);
    return get(node, NODE_MEMCPY, ret_copy, sizeof(*ret_copy));
}

API(cuGraphMemcpyNodeSetParams, struct sim_node *node, const struct abi_memcpy3d *copy)
{
    ENTER(cuGraphMemcpyNodeSetParams);
    return set(node, NODE_MEMCPY, copy);
}

API(cuGraphExecMemcpyNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const struct abi_memcpy3d *copy, struct sim_context *context)
{
    ENTER(cuGraphExecMemcpyNodeSetParams);
    (void)context;
    return set_exec(exec, node, NODE_MEMCPY, copy);
}

API(cuGraphAddMemsetNode, NEEDS, const void *parameters, struct sim_context *context)
{
    struct abi_memset_node wide;

    ENTER(cuGraphAddMemsetNode);
    (void)context;
    return add(ret_node, graph, needs, count, NODE_MEMSET, widen_memset(&wide, parameters));
}

API(cuGraphMemsetNodeGetParams, struct sim_node *node, void *ret_parameters)
{
    ENTER(cuGraphMemsetNodeGetParams);
    return get(node, NODE_MEMSET, ret_parameters, MEMSET_V1_BYTES);
}

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

API(cuGraphAddHostNode, NEEDS, const struct abi_host_node *parameters)
{
    ENTER(cuGraphAddHostNode);
    return add(ret_node, graph, needs, count, NODE_HOST, parameters);
}

API(cuGraphHostNodeGetParams, struct sim_node *node, struct abi_host_node *ret_parameters)
{
    ENTER(cuGraphHostNodeGetParams);
    return get(node, NODE_HOST, ret_parameters, sizeof(*ret_parameters));
}

API(cuGraphHostNodeSetParams, struct sim_node *node, const struct abi_host_node *parameters)
{
    ENTER(cuGraphHostNodeSetParams);
    return set(node, NODE_HOST, parameters);
}

API(cuGraphExecHostNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const struct abi_host_node *parameters)
{
    ENTER(cuGraphExecHostNodeSetParams);
    return set_exec(exec, node, NODE_HOST, parameters);
}

API(cuGraphAddEmptyNode, NEEDS)
{
    ENTER(cuGraphAddEmptyNode);
    return add(ret_node, graph, needs, count, NODE_EMPTY, NULL);
}

API(cuGraphAddChildGraphNode, NEEDS, struct sim_graph *child)
{
    ENTER(cuGraphAddChildGraphNode);
    return add(ret_node, graph, needs, count, NODE_CHILD, child);
}

API(cuGraphChildGraphNodeGetGraph, struct sim_node *node, struct sim_graph **ret_graph)
{
    ENTER(cuGraphChildGraphNodeGetGraph);
    return get(node, NODE_CHILD, ret_graph, sizeof(*ret_graph));
}

API(cuGraphAddEventRecordNode, NEEDS, struct sim_event *event)
{
    ENTER(cuGraphAddEventRecordNode);
    return add(ret_node, graph, needs, count, NODE_EVENT_RECORD, event);
}

API(cuGraphAddEventWaitNode, NEEDS, struct sim_event *event)
{
    ENTER(cuGraphAddEventWaitNode);
    return add(ret_node, graph, needs, count, NODE_EVENT_WAIT, event);
}

API(cuGraphEventRecordNodeGetEvent, struct sim_node *node, struct sim_event **ret_event)
{
    ENTER(cuGraphEventRecordNodeGetEvent);
    return get(node, NODE_EVENT_RECORD, ret_event, sizeof(*ret_event));
}

API(cuGraphEventWaitNodeGetEvent, struct sim_node *node, struct sim_event **ret_event)
{
    ENTER(cuGraphEventWaitNodeGetEvent);
    return get(node, NODE_EVENT_WAIT, ret_event, sizeof(*ret_event));
}

API(cuGraphEventRecordNodeSetEvent, struct sim_node *node, struct sim_event *event)
{
    ENTER(cuGraphEventRecordNodeSetEvent);
    return set(node, NODE_EVENT_RECORD, event);
}

API(cuGraphEventWaitNodeSetEvent, struct sim_node *node, struct sim_event *event)
{
    ENTER(cuGraphEventWaitNodeSetEvent);
    return set(node, NODE_EVENT_WAIT, event);
}

API(cuGraphAddBatchMemOpNode, NEEDS, const struct abi_batch_node *parameters)
{
    ENTER(cuGraphAddBatchMemOpNode);
    return add(ret_node, graph, needs, count, NODE_BATCH, parameters);
}

API(cuGraphBatchMemOpNodeGetParams, struct sim_node *node, struct abi_batch_node *ret_parameters)
{
    ENTER(cuGraphBatchMemOpNodeGetParams);
    return get(node, NODE_BATCH, ret_parameters, sizeof(*ret_parameters));
}

API(cuGraphBatchMemOpNodeSetParams, struct sim_node *node, const struct abi_batch_node *parameters)
{
    ENTER(cuGraphBatchMemOpNodeSetParams);
    return set(node, NODE_BATCH, parameters);
}

API(cuGraphExecBatchMemOpNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    const struct abi_batch_node *parameters)
{
    ENTER(cuGraphExecBatchMemOpNodeSetParams);
    return set_exec(exec, node, NODE_BATCH, parameters);
}

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

API(cuGraphAddMemAllocNode, NEEDS, struct abi_mem_alloc_node *parameters)
{
    ENTER(cuGraphAddMemAllocNode);
    return add_alloc(ret_node, graph, needs, count, parameters);
}

API(cuGraphMemAllocNodeGetParams, struct sim_node *node, struct abi_mem_alloc_node *ret_parameters)
{
    ENTER(cuGraphMemAllocNodeGetParams);
    return get(node, NODE_MEM_ALLOC, ret_parameters, sizeof(*ret_parameters));
}

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

API(cuGraphAddMemFreeNode, NEEDS, devptr address)
{
    ENTER(cuGraphAddMemFreeNode);
    return add_free(ret_node, graph, needs, count, address);
}

API(cuGraphMemFreeNodeGetParams, struct sim_node *node, devptr *ret_address)
{
    ENTER(cuGraphMemFreeNodeGetParams);
    return get(node, NODE_MEM_FREE, ret_address, sizeof(*ret_address));
}

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

API(cuGraphAddNode, NEEDS, struct abi_node_params *parameters)
{
    ENTER(cuGraphAddNode);
    return add_any(ret_node, graph, needs, count, parameters);
}

API(cuGraphAddNode_v2, struct sim_node **ret_node, struct sim_graph *graph,
    struct sim_node *const *needs, const struct abi_edge_data *edges, size_t count,
    struct abi_node_params *parameters)
{
    ENTER(cuGraphAddNode_v2);
    (void)edges;
    return add_any(ret_node, graph, needs, count, parameters);
}

API(cuGraphNodeSetParams, struct sim_node *node, struct abi_node_params *parameters)
{
    ENTER(cuGraphNodeSetParams);
    return parameters ? set(node, parameters->type, inner(parameters)) : ERR_INVALID_VALUE;
}

API(cuGraphExecNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    struct abi_node_params *parameters)
{
    ENTER(cuGraphExecNodeSetParams);
    return parameters ? set_exec(exec, node, parameters->type, inner(parameters))
                      : ERR_INVALID_VALUE;
}

API(cuGraphExecEventRecordNodeSetEvent, struct sim_exec *exec, struct sim_node *node,
    struct sim_event *event)
{
    ENTER(cuGraphExecEventRecordNodeSetEvent);
    return set_exec(exec, node, NODE_EVENT_RECORD, event);
}

API(cuGraphExecEventWaitNodeSetEvent, struct sim_exec *exec, struct sim_node *node,
    struct sim_event *event)
{
    ENTER(cuGraphExecEventWaitNodeSetEvent);
    return set_exec(exec, node, NODE_EVENT_WAIT, event);
}

API(cuGraphExecChildGraphNodeSetParams, struct sim_exec *exec, struct sim_node *node,
    struct sim_graph *child)
{
    ENTER(cuGraphExecChildGraphNodeSetParams);
    return set_exec(exec, node, NODE_CHILD, child);
}

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

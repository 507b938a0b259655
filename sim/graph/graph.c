/* Graphs: nodes, dependencies, copies. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

bool nodes_add(struct sim_nodes *nodes, struct sim_node *node)
{
    if (nodes->count == nodes->room) {
        int room = nodes->room ? nodes->room * 2 : 4;
        struct sim_node **list = realloc(nodes->list, (size_t)room * sizeof(*list));
        if (!list)
            return false;
        nodes->list = list;
        nodes->room = room;
    }
    nodes->list[nodes->count++] = node;
    return true;
}

bool nodes_have(const struct sim_nodes *nodes, const struct sim_node *node)
{
    for (int at = 0; at < nodes->count; at++) {
        if (nodes->list[at] == node)
            return true;
    }
    return false;
}

void nodes_remove(struct sim_nodes *nodes, const struct sim_node *node)
{
    for (int at = 0; at < nodes->count; at++) {
        if (nodes->list[at] != node)
            continue;
        memmove(nodes->list + at, nodes->list + at + 1,
                (size_t)(nodes->count - at - 1) * sizeof(*nodes->list));
        nodes->count--;
        return;
    }
}

void nodes_clear(struct sim_nodes *nodes)
{
    free(nodes->list);
    *nodes = (struct sim_nodes){0};
}

struct sim_graph *graph_new(void)
{
    return sim_object(sizeof(struct sim_graph), MAGIC_GRAPH);
}

static void node_free(struct sim_node *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->u.child)
        graph_free(node->u.child);
    if (node->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        free(node->u.batch.paramArray);
    nodes_clear(&node->needs);
    handle_retire(node);
}

void graph_free(struct sim_graph *graph)
{
    for (int at = 0; at < graph->nodes.count; at++)
        node_free(graph->nodes.list[at]);
    nodes_clear(&graph->nodes);
    handle_retire(graph);
}

struct sim_node *node_new(struct sim_graph *graph, int type)
{
    struct sim_node *node = sim_object(sizeof(*node), MAGIC_NODE);

    if (!node || !nodes_add(&graph->nodes, node)) {
        free(node);
        return NULL;
    }
    node->type = type;
    node->graph = graph;
    node->enabled = true;
    return node;
}

int node_depend(struct sim_node *node, struct sim_node *const *needs, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        if (!IS(needs[at], MAGIC_NODE) || needs[at]->graph != node->graph ||
            nodes_have(&node->needs, needs[at]))
            return CUDA_ERROR_INVALID_VALUE;
        if (!nodes_add(&node->needs, needs[at]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static void own_arguments(struct sim_node *node)
{
    node->arguments[0] = &node->values[0];
    node->arguments[1] = &node->values[1];
}

void node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct sim_function *function = parameters->func ? parameters->func : parameters->kern;

    node->u.kernel = *parameters;
    node->u.kernel.func = function;
    node->work = function_kernel(function, parameters->kernelParams, parameters->extra);
    node->u.kernel.kernelParams = NULL;
    if (function_arguments(function, parameters->kernelParams, parameters->extra, node->values))
        node->u.kernel.kernelParams = node->arguments;
    node->u.kernel.extra = NULL;
    own_arguments(node);
}

int node_set_batch(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    size_t bytes = batch->count * sizeof(*batch->paramArray);
    CUstreamBatchMemOpParams *copy = malloc(bytes ? bytes : 1);

    if (!copy) {
        node->u.batch = (CUDA_BATCH_MEM_OP_NODE_PARAMS){0};
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy, batch->paramArray, bytes);
    node->u.batch = *batch;
    node->u.batch.paramArray = copy;
    return CUDA_SUCCESS;
}

static struct sim_node *copy_of(const struct sim_graph *copy, const struct sim_node *source)
{
    for (int at = 0; at < copy->nodes.count; at++) {
        if (copy->nodes.list[at]->source == source)
            return copy->nodes.list[at];
    }
    return NULL;
}

static bool copy_node(struct sim_graph *graph, struct sim_node *source)
{
    struct sim_node *node = node_new(graph, source->type);

    if (!node)
        return false;
    node->enabled = source->enabled;
    node->work = source->work;
    memcpy(node->values, source->values, sizeof(node->values));
    own_arguments(node);
    node->u = source->u;
    node->source = source;
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && node->u.kernel.kernelParams)
        node->u.kernel.kernelParams = node->arguments;
    if (node->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        return node_set_batch(node, &source->u.batch) == CUDA_SUCCESS;
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        node->u.child = graph_copy(source->u.child);
        return node->u.child != NULL;
    }
    return true;
}

/* Adds a node's copy after those of all nodes that it depends on. False: a cycle, or no memory. */
static bool copy_in_order(struct sim_graph *copy, struct sim_node *node)
{
    if (node->mark == 2)
        return true;
    if (node->mark == 1)
        return false;
    node->mark = 1;
    for (int at = 0; at < node->needs.count; at++) {
        if (!copy_in_order(copy, node->needs.list[at]))
            return false;
    }
    node->mark = 2;
    return copy_node(copy, node);
}

struct sim_graph *graph_copy(const struct sim_graph *graph)
{
    struct sim_graph *copy = graph_new();
    bool good = copy != NULL;

    for (int at = 0; at < graph->nodes.count; at++)
        graph->nodes.list[at]->mark = 0;
    for (int at = 0; good && at < graph->nodes.count; at++)
        good = copy_in_order(copy, graph->nodes.list[at]);
    for (int at = 0; good && at < copy->nodes.count; at++) {
        struct sim_node *node = copy->nodes.list[at];
        for (int need = 0; good && need < node->source->needs.count; need++)
            good = nodes_add(&node->needs, copy_of(copy, node->source->needs.list[need]));
    }
    if (!good && copy) {
        graph_free(copy);
        return NULL;
    }
    if (copy)
        copy->source = (struct sim_graph *)graph;
    return copy;
}

API(cuGraphCreate, struct sim_graph **ret_graph, unsigned flags)
{
    ENTER(cuGraphCreate);
    if (!ret_graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = graph_new();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_graph = graph;
    return CUDA_SUCCESS;
}

API(cuGraphDestroy, struct sim_graph *graph)
{
    ENTER(cuGraphDestroy);
    if (!IS(graph, MAGIC_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    graph_memory_forget(graph);
    graph_free(graph);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuGraphClone, struct sim_graph **ret_graph, struct sim_graph *graph)
{
    ENTER(cuGraphClone);
    if (!ret_graph || !IS(graph, MAGIC_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    if (graph_memory_has(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    struct sim_graph *copy = graph_copy(graph);
    sim_unlock();
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_graph = copy;
    return CUDA_SUCCESS;
}

API(cuGraphNodeFindInClone, struct sim_node **ret_node, struct sim_node *node,
    struct sim_graph *clone)
{
    ENTER(cuGraphNodeFindInClone);
    if (!ret_node || !IS(node, MAGIC_NODE) || !IS(clone, MAGIC_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *found = copy_of(clone, node);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_node = found;
    return CUDA_SUCCESS;
}

API(cuGraphNodeGetType, struct sim_node *node, CUgraphNodeType *ret_type)
{
    ENTER(cuGraphNodeGetType);
    if (!ret_type || !IS(node, MAGIC_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_type = node->type;
    return CUDA_SUCCESS;
}

/* The protocol of all list calls. Without a list, *count is set to the length. With one, entries
 * beyond the length are set to NULL. */
static int give_list(struct sim_node *const *nodes, int length, struct sim_node **ret_list,
                     size_t *count)
{
    if (!ret_list) {
        *count = (size_t)length;
        return CUDA_SUCCESS;
    }
    for (size_t at = 0; at < *count; at++)
        ret_list[at] = at < (size_t)length ? nodes[at] : NULL;
    if (*count > (size_t)length)
        *count = (size_t)length;
    return CUDA_SUCCESS;
}

API(cuGraphGetNodes, struct sim_graph *graph, struct sim_node **ret_nodes, size_t *count)
{
    ENTER(cuGraphGetNodes);
    if (!IS(graph, MAGIC_GRAPH) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = give_list(graph->nodes.list, graph->nodes.count, ret_nodes, count);
    sim_unlock();
    return code;
}

API(cuGraphGetRootNodes, struct sim_graph *graph, struct sim_node **ret_nodes, size_t *count)
{
    struct sim_nodes roots = {0};

    ENTER(cuGraphGetRootNodes);
    if (!IS(graph, MAGIC_GRAPH) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    for (int at = 0; at < graph->nodes.count; at++) {
        if (!graph->nodes.list[at]->needs.count)
            nodes_add(&roots, graph->nodes.list[at]);
    }
    int code = give_list(roots.list, roots.count, ret_nodes, count);
    sim_unlock();
    nodes_clear(&roots);
    return code;
}

static int get_edges(struct sim_graph *graph, struct sim_node **ret_from, struct sim_node **ret_to,
                     size_t *count)
{
    struct sim_nodes from = {0}, to = {0};

    if (!IS(graph, MAGIC_GRAPH) || !count || (!ret_from != !ret_to))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    for (int at = 0; at < graph->nodes.count; at++) {
        struct sim_node *node = graph->nodes.list[at];
        for (int need = 0; need < node->needs.count; need++) {
            nodes_add(&from, node->needs.list[need]);
            nodes_add(&to, node);
        }
    }
    size_t room = *count;
    give_list(from.list, from.count, ret_from, count);
    if (ret_to)
        give_list(to.list, to.count, ret_to, &room);
    sim_unlock();
    nodes_clear(&from);
    nodes_clear(&to);
    return CUDA_SUCCESS;
}

API_AS(cuGraphGetEdges, get_edges(graph, ret_from, ret_to, count), struct sim_graph *graph,
       struct sim_node **ret_from, struct sim_node **ret_to, size_t *count)

API(cuGraphGetEdges_v2, struct sim_graph *graph, struct sim_node **ret_from,
    struct sim_node **ret_to, CUgraphEdgeData *ret_edges, size_t *count)
{
    ENTER(cuGraphGetEdges_v2);
    if (ret_edges && count)
        memset(ret_edges, 0, *count * sizeof(*ret_edges));
    return get_edges(graph, ret_from, ret_to, count);
}

static int get_needs(struct sim_node *node, struct sim_node **ret_nodes, size_t *count)
{
    if (!IS(node, MAGIC_NODE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = give_list(node->needs.list, node->needs.count, ret_nodes, count);
    sim_unlock();
    return code;
}

API_AS(cuGraphNodeGetDependencies, get_needs(node, ret_nodes, count), struct sim_node *node,
       struct sim_node **ret_nodes, size_t *count)

API(cuGraphNodeGetDependencies_v2, struct sim_node *node, struct sim_node **ret_nodes,
    CUgraphEdgeData *ret_edges, size_t *count)
{
    ENTER(cuGraphNodeGetDependencies_v2);
    if (ret_edges && count)
        memset(ret_edges, 0, *count * sizeof(*ret_edges));
    return get_needs(node, ret_nodes, count);
}

static int get_dependents(struct sim_node *node, struct sim_node **ret_nodes, size_t *count)
{
    struct sim_nodes after = {0};

    if (!IS(node, MAGIC_NODE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    for (int at = 0; at < node->graph->nodes.count; at++) {
        if (nodes_have(&node->graph->nodes.list[at]->needs, node))
            nodes_add(&after, node->graph->nodes.list[at]);
    }
    int code = give_list(after.list, after.count, ret_nodes, count);
    sim_unlock();
    nodes_clear(&after);
    return code;
}

API_AS(cuGraphNodeGetDependentNodes, get_dependents(node, ret_nodes, count), struct sim_node *node,
       struct sim_node **ret_nodes, size_t *count)

API(cuGraphNodeGetDependentNodes_v2, struct sim_node *node, struct sim_node **ret_nodes,
    CUgraphEdgeData *ret_edges, size_t *count)
{
    ENTER(cuGraphNodeGetDependentNodes_v2);
    if (ret_edges && count)
        memset(ret_edges, 0, *count * sizeof(*ret_edges));
    return get_dependents(node, ret_nodes, count);
}

static int change_edges(struct sim_graph *graph, struct sim_node *const *from,
                        struct sim_node *const *to, size_t count, bool add)
{
    int code = CUDA_SUCCESS;

    if (!IS(graph, MAGIC_GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    for (size_t at = 0; at < count && !code; at++) {
        if (!IS(to[at], MAGIC_NODE) || to[at]->graph != graph)
            code = CUDA_ERROR_INVALID_VALUE;
        else if (add)
            code = node_depend(to[at], &from[at], 1);
        else if (!nodes_have(&to[at]->needs, from[at]))
            code = CUDA_ERROR_INVALID_VALUE;
        else
            nodes_remove(&to[at]->needs, from[at]);
    }
    sim_unlock();
    return code;
}

API_AS(cuGraphAddDependencies, change_edges(graph, from, to, count, true), struct sim_graph *graph,
       struct sim_node *const *from, struct sim_node *const *to, size_t count)
API_AS(cuGraphAddDependencies_v2, change_edges(graph, from, to, count, true),
       struct sim_graph *graph, struct sim_node *const *from, struct sim_node *const *to,
       const CUgraphEdgeData *edges, size_t count)
API_AS(cuGraphRemoveDependencies, change_edges(graph, from, to, count, false),
       struct sim_graph *graph, struct sim_node *const *from, struct sim_node *const *to,
       size_t count)
API_AS(cuGraphRemoveDependencies_v2, change_edges(graph, from, to, count, false),
       struct sim_graph *graph, struct sim_node *const *from, struct sim_node *const *to,
       const CUgraphEdgeData *edges, size_t count)

API(cuGraphDestroyNode, struct sim_node *node)
{
    ENTER(cuGraphDestroyNode);
    if (!IS(node, MAGIC_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *graph = node->graph;
    for (int at = 0; at < graph->nodes.count; at++)
        nodes_remove(&graph->nodes.list[at]->needs, node);
    nodes_remove(&graph->nodes, node);
    node_free(node);
    sim_unlock();
    return CUDA_SUCCESS;
}

/*
 * Memory of graphs. A node only takes addresses; a launch makes sure that the device's graph memory
 * has room for what the graph holds at once, in steps of 32 MiB. Graphs that run one after the
 * other use the same memory, which stays until it is trimmed.
 */
#include "graph.h"

static struct {
    uint64_t reserved, reserved_high;
    uint64_t live; /* allocations that a graph made and nobody has freed yet */
} memory[SIM_MAX_DEVICES];

static struct sim_exec *execs; /* executable graphs with memory nodes */

/* The real driver reports the reserved bytes as used too. */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + SIM_GROW - 1) / SIM_GROW * SIM_GROW;
}

void graph_memory_free(struct sim_range *range)
{
    struct sim_exec *exec = range->owner;

    if (!exec)
        return;
    range->owner = NULL;
    exec->live_allocations--;
    memory[range->device].live -= range->asked;
}

/* Without an owner they are addresses without memory. */
static bool node_find(struct sim_range *range, devptr address, devptr *ret_base,
                      uint64_t *ret_bytes)
{
    return range->owner && range_find_whole(range, address, ret_base, ret_bytes);
}

static int node_free(struct sim_range *range, devptr address, uint64_t order)
{
    (void)order;
    if (address != range->base)
        return CUDA_ERROR_INVALID_VALUE;
    graph_memory_free(range);
    return CUDA_SUCCESS;
}

static const struct range_ops node_ops = {node_find, range_touch_whole, node_free};

int graph_memory_node(struct sim_node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    if (!parameters->bytesize ||
        parameters->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_ordinal_valid(parameters->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_range *range = range_new(parameters->bytesize, RANGE_GRAPH);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->device = sim.map[parameters->poolProps.location.id];
    range->kind = SIM_GRAPH;
    range->ops = &node_ops;
    parameters->dptr = range->base;
    node->u.alloc = *parameters;
    node->u.alloc.accessDescs = NULL;
    node->u.alloc.accessDescCount = 0;
    return CUDA_SUCCESS;
}

bool graph_memory_has(const struct sim_graph *graph)
{
    for (int at = 0; at < graph->nodes.count; at++) {
        int type = graph->nodes.list[at]->type;
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return true;
    }
    return false;
}

/* Most bytes held at once by a graph whose nodes run in the order of the list. */
static uint64_t peak_of(const struct sim_graph *graph, int *ret_device)
{
    uint64_t now = 0, peak = 0;

    for (int at = 0; at < graph->nodes.count; at++) {
        struct sim_node *node = graph->nodes.list[at];
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            now += (node->u.alloc.bytesize + 511) / 512 * 512;
            *ret_device = sim.map[node->u.alloc.poolProps.location.id];
        } else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            struct sim_range *range = range_find(node->u.release);
            uint64_t bytes = range ? (range->asked + 511) / 512 * 512 : 0;
            now -= bytes < now ? bytes : now;
        } else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            uint64_t inner = peak_of(node->u.child, ret_device);
            peak = now + inner > peak ? now + inner : peak;
        }
        peak = now > peak ? now : peak;
    }
    return peak;
}

bool graph_memory_instantiated(const struct sim_graph *graph)
{
    for (struct sim_exec *exec = execs; exec; exec = exec->next) {
        if (exec->origin == graph)
            return true;
    }
    return false;
}

void graph_memory_join(struct sim_exec *exec, struct sim_graph *origin)
{
    exec->memory_bytes = peak_of(exec->graph, &exec->device);
    if (!graph_memory_has(origin))
        return;
    exec->origin = origin;
    exec->next = execs;
    execs = exec;
}

void graph_memory_leave(struct sim_exec *exec)
{
    for (struct sim_exec **link = &execs; *link; link = &(*link)->next) {
        if (*link == exec) {
            *link = exec->next;
            return;
        }
    }
}

void graph_memory_forget(const struct sim_graph *graph)
{
    for (struct sim_exec *exec = execs; exec; exec = exec->next) {
        if (exec->origin == graph)
            exec->origin = NULL;
    }
}

int graph_memory_take(struct sim_exec *exec, struct sim_stream *stream)
{
    int device = exec->device;

    if (!exec->memory_bytes)
        return CUDA_SUCCESS;
    uint64_t needed = exec->memory_bytes + memory[device].live;
    for (struct sim_exec *other = execs; other; other = other->next) {
        if (other != exec && other->device == device && other->stream && other->stream != stream &&
            !done_number(device, other->number))
            needed += other->memory_bytes;
    }
    needed = round_up(needed);
    if (needed > memory[device].reserved) {
        int code = sim_charge(device, SIM_GRAPH, needed - memory[device].reserved);
        if (code)
            return code;
        memory[device].reserved = needed;
        if (needed > memory[device].reserved_high)
            memory[device].reserved_high = needed;
    }
    return CUDA_SUCCESS;
}

void graph_memory_live(struct sim_range *range, struct sim_exec *exec)
{
    range->owner = exec;
    exec->live_allocations++;
    memory[range->device].live += range->asked;
}

API(cuDeviceGraphMemTrim, int ordinal)
{
    ENTER_KERNEL(cuDeviceGraphMemTrim);
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    int device = sim.map[ordinal];
    uint64_t keep = round_up(memory[device].live);
    if (memory[device].reserved > keep) {
        sim_release(device, SIM_GRAPH, memory[device].reserved - keep);
        memory[device].reserved = keep;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuDeviceGetGraphMemAttribute, int ordinal, CUgraphMem_attribute attribute, void *ret_value)
{
    ENTER(cuDeviceGetGraphMemAttribute);
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!ret_value || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    int device = sim.map[ordinal];
    bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    sim_lock();
    *(uint64_t *)ret_value = high ? memory[device].reserved_high : memory[device].reserved;
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuDeviceSetGraphMemAttribute, int ordinal, int attribute, const uint64_t *value)
{
    ENTER(cuDeviceSetGraphMemAttribute);
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || *value ||
        (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
         attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    int device = sim.map[ordinal];
    sim_lock();
    memory[device].reserved_high = memory[device].reserved;
    sim_unlock();
    return CUDA_SUCCESS;
}

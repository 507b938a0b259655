/* A launch pays one load for graph memory, until the program instantiates its first graph with
 * allocation nodes. */
#include "hook/memory/graph.h"

#include "base/forkwatch.h"
#include "base/nocancel.h"
#include "hook/work/capture.h"
#include "hook/memory/admission.h"
#include "hook/work/compute.h"
#include "hook/memory/driver_sized.h"
#include "hook/loader/sources.h"
#include "hook/work/stream_key.h"
#include "account/refuse.h"

#include <stdlib.h>

#define GRAPH_DEPTH_MAX     32 /* of child graphs in child graphs */
#define INSTANTIATE_UPLOADS 2  /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */
#define ALLOCATION_UNIT     (2ULL << 20)

/* The memory that the driver keeps for graphs on one device. */
struct backing {
    struct driver_sized sized;
    CUdevice device;
    atomic_bool ready;
    atomic_uint trims;    /* changes whenever the memory may have been freed, or used by graphs on
                             another stream */
    CUstream last_stream; /* of the last launch; under the lock of `sized` */
};

/* An executable graph that has memory nodes. */
struct graph_memory {
    unsigned count;
    struct place {
        CUdevice device;
        uint64_t bytes;
        atomic_uint backed; /* backing->trims + 1 at its last launch */
    } places[VGPU_DEVICES_MAX];
};

static struct backing backings[VGPU_DEVICES_MAX];
static struct vgpu_mutex backings_lock = VGPU_MUTEX_INIT; /* for making one ready */
static atomic_bool memory_possible;
static atomic_uint exec_count; /* executables in RECORDS_GRAPHS */

void graph_memory_possible(void)
{
    atomic_store_explicit(&memory_possible, true, memory_order_relaxed);
}

static bool read_backing(const struct driver_sized *sized, uint64_t *ret_bytes)
{
    const struct backing *backing = (const struct backing *)sized; /* its first member */
    cuuint64_t value = 0;

    if (!HAVE(cuDeviceGetGraphMemAttribute) ||
        DRIVER(cuDeviceGetGraphMemAttribute)(
            backing->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value) != CUDA_SUCCESS)
        return false;
    *ret_bytes = value;
    return true;
}

/* A launch that begins after the first count finds itself not backed. One that began before keeps
 * what it claimed. */
static void trim_backing(struct driver_sized *sized)
{
    struct backing *backing = (struct backing *)sized;

    if (!HAVE(cuDeviceGraphMemTrim))
        return;
    atomic_fetch_add(&backing->trims, 1);
    DRIVER(cuDeviceGraphMemTrim)(backing->device);
    atomic_fetch_add(&backing->trims, 1);
}

static const struct driver_sized_ops backing_driver = {.read = read_backing, .trim = trim_backing};

static void graph_forget(void)
{
    mutex_init(&backings_lock);
    atomic_store(&exec_count, 0);
}

static struct memory_source graph_source = {.forked = graph_forget};

/* NULL: the device is none of the instance's. */
static struct backing *backing_of(CUdevice device)
{
    struct backing *backing;
    unsigned vdev;

    if (device < 0 || device >= VGPU_DEVICES_MAX)
        return NULL;
    backing = &backings[device];
    if (atomic_load_explicit(&backing->ready, memory_order_acquire))
        return backing;
    if (device_vdev(device, &vdev) < 0)
        return NULL;
    sources_register(&graph_source);
    fork_check();
    mutex_lock(&backings_lock);
    if (!atomic_load(&backing->ready)) {
        driver_sized_init(&backing->sized, vdev, VGPU_KIND_GRAPH, &backing_driver);
        backing->device = device;
        atomic_store_explicit(&backing->ready, true, memory_order_release);
    }
    mutex_unlock(&backings_lock);
    return backing;
}

/* The bytes that a graph's allocation nodes need, by device */

static void add_place(struct graph_memory *memory, CUdevice device, uint64_t bytes)
{
    unsigned i = 0;

    while (i < memory->count && memory->places[i].device != device)
        i++;
    if (i == VGPU_DEVICES_MAX)
        return;
    if (i == memory->count) {
        memory->places[i].device = device;
        memory->count++;
    }
    memory->places[i].bytes += mem_round(bytes, ALLOCATION_UNIT);
}

static void graph_search(CUgraph graph, struct graph_memory *memory, unsigned depth);

static void graph_search_node(CUgraphNode node, struct graph_memory *memory, unsigned depth)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = NULL;

    if (DRIVER(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        DRIVER(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
        graph_search(child, memory, depth + 1);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        DRIVER(cuGraphMemAllocNodeGetParams)(node, &params) == CUDA_SUCCESS &&
        params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        params.bytesize < MEM_LIMIT_BYTES)
        add_place(memory, params.poolProps.location.id, params.bytesize);
}

static void graph_search(CUgraph graph, struct graph_memory *memory, unsigned depth)
{
    CUgraphNode *nodes;
    size_t count = 0;

    if (depth > GRAPH_DEPTH_MAX || DRIVER(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS)
        return;
    nodes = count > 0 ? hook_zalloc(count * sizeof(*nodes)) : NULL;
    if (nodes == NULL)
        return;
    if (DRIVER(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS) {
        for (size_t i = 0; i < count; i++)
            graph_search_node(nodes[i], memory, depth);
    }
    free(nodes);
}

/* NULL: the graph has no allocation nodes, or no quota limits it. */
static struct graph_memory *memory_of_graph(CUgraph graph)
{
    struct graph_memory *memory;
    struct capture_mode mode;

    if (!atomic_load_explicit(&memory_possible, memory_order_relaxed) || hook_ledger() == NULL ||
        graph == NULL || !HAVE(cuGraphGetNodes) || !HAVE(cuGraphNodeGetType) ||
        !HAVE(cuGraphChildGraphNodeGetGraph) || !HAVE(cuGraphMemAllocNodeGetParams))
        return NULL;
    memory = hook_zalloc(sizeof(*memory));
    if (memory == NULL)
        return NULL;
    mode = capture_enter();
    graph_search(graph, memory, 0);
    capture_leave(&mode);
    if (memory->count == 0) {
        free(memory);
        memory = NULL;
    }
    return memory;
}

/* Executables */

static struct graph_memory *take_exec(CUgraphExec exec)
{
    struct vgpu_track_entry entry;

    if (!record_take(RECORDS_GRAPHS, (uintptr_t)exec, &entry))
        return NULL;
    atomic_fetch_sub(&exec_count, 1);
    return (struct graph_memory *)(uintptr_t)entry.extra;
}

static bool put_exec(CUgraphExec exec, struct graph_memory *memory)
{
    struct vgpu_track_entry entry = {.extra = (uintptr_t)memory, .kind = VGPU_KIND_GRAPH};

    free(take_exec(exec)); /* the driver destroyed it unseen */
    if (!record_put(RECORDS_GRAPHS, (uintptr_t)exec, &entry))
        return false;
    atomic_fetch_add(&exec_count, 1);
    return true;
}

/* After an instantiation: the handle may be that of an executable that is gone. */
static CUresult graph_forget_cost(const CUgraphExec *exec, CUresult result)
{
    if (result == CUDA_SUCCESS && exec != NULL)
        compute_forget(graph_cost_key(*exec));
    return result;
}

/* The same for a graph with allocation nodes. Takes over `memory`. */
static CUresult graph_instantiated(CUgraphExec *ret_exec, CUgraphExec exec,
                                   struct graph_memory *memory, CUresult result)
{
    if (result != CUDA_SUCCESS) {
        free(memory);
        return result;
    }
    if (memory != NULL && !put_exec(exec, memory)) {
        free(memory);
        DRIVER(cuGraphExecDestroy)(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_exec = exec;
    return graph_forget_cost(ret_exec, CUDA_SUCCESS);
}

/* Launches */

struct launch {
    struct graph_memory *memory;
    struct backing *backing[VGPU_DEVICES_MAX];
    struct driver_sized_ticket ticket[VGPU_DEVICES_MAX];
    unsigned trims[VGPU_DEVICES_MAX];
};

static void end_places(struct launch *launch, unsigned count, CUresult result)
{
    for (unsigned i = 0; i < count; i++) {
        if (launch->backing[i] == NULL)
            continue;
        /* A launch cannot be taken back: bytes beyond the bound stay charged, and nothing more is
         * admitted. */
        driver_sized_end(&launch->backing[i]->sized, &launch->ticket[i], 0);
        if (result == CUDA_SUCCESS)
            atomic_store(&launch->memory->places[i].backed, launch->trims[i] + 1);
    }
}

struct next_launch {
    const struct place *place;
    CUstream stream;
    bool own_stream; /* the stream is the thread's own, which its handle does not show */
};

/* Graphs that run one after the other share their memory. So a graph has all that it needs if it
 * was launched before, and every launch since then went to the same stream. */
static bool still_backed(const void *arg)
{
    const struct next_launch *next = arg;
    struct backing *backing = &backings[next->place->device];

    if (next->own_stream || backing->last_stream != next->stream) {
        backing->last_stream = next->stream;
        atomic_fetch_add(&backing->trims, 1);
        return false;
    }
    return atomic_load(&next->place->backed) == atomic_load(&backing->trims) + 1;
}

/* Reserves the most that the launch can take. False: over the quota, and nothing is reserved. */
static bool begin_places(enum hook_symbol sym, struct launch *launch, CUstream stream,
                         bool per_thread)
{
    for (unsigned i = 0; i < launch->memory->count; i++) {
        struct place *place = &launch->memory->places[i];
        struct backing *backing = backing_of(place->device);
        struct next_launch next = {
            .place = place,
            .stream = stream,
            .own_stream = stream_is_own_threads(stream, per_thread),
        };

        launch->backing[i] = backing;
        if (backing == NULL)
            continue;
        if (!driver_sized_claim(&backing->sized, place->bytes, still_backed, &next,
                                &launch->ticket[i]) &&
            !driver_sized_begin(&backing->sized, place->bytes, &launch->ticket[i])) {
            ledger_refuse(hook_ledger(), backing->sized.vdev, place->bytes, hook_symbol_name(sym));
            end_places(launch, i, CUDA_ERROR_OUT_OF_MEMORY);
            return false;
        }
        launch->trims[i] = atomic_load(&backing->trims);
    }
    return true;
}

static __attribute__((noinline)) CUresult launch_with_memory(enum hook_symbol sym, CUgraphExec exec,
                                                             CUstream stream)
{
    bool per_thread = hook_symbol_per_thread(sym);
    struct vgpu_track_entry entry;
    struct launch launch;
    CUresult result;
    NO_CANCEL;

    /* A capture makes the graph a node of another one. */
    if (hook_ledger() == NULL || !record_get(RECORDS_GRAPHS, (uintptr_t)exec, &entry) ||
        capture_records(stream, per_thread))
        return REAL(sym, graph_launch)(exec, stream);
    launch.memory = (struct graph_memory *)(uintptr_t)entry.extra;
    if (!begin_places(sym, &launch, stream, per_thread))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(sym, graph_launch)(exec, stream);
    end_places(&launch, launch.memory->count, result);
    return result;
}

/* A launch, or an upload, which has the same parameters and takes the same memory. */
static inline CUresult launch_or_upload(enum hook_symbol sym, CUgraphExec exec, CUstream stream)
{
    if (__builtin_expect(atomic_load_explicit(&exec_count, memory_order_relaxed) == 0, 1))
        return REAL(sym, graph_launch)(exec, stream);
    return launch_with_memory(sym, exec, stream);
}

static __attribute__((noinline)) CUresult launch_limited(enum hook_symbol sym, CUgraphExec exec,
                                                         CUstream stream)
{
    struct work work = {
        .kind = VGPU_WORK_GRAPH,
        .per_thread = hook_symbol_per_thread(sym),
        .stream = stream,
        .key = graph_cost_key(exec),
    };
    CUresult result;

    compute_begin(&work);
    result = launch_or_upload(sym, exec, stream);
    compute_end(&work, result);
    return result;
}

CUresult hook_graph_launch(enum hook_symbol sym, CUgraphExec graph, CUstream stream)
{
    if (compute_off())
        return launch_or_upload(sym, graph, stream);
    return launch_limited(sym, graph, stream);
}

CUresult hook_graph_upload(enum hook_symbol sym, CUgraphExec graph, CUstream stream)
{
    return launch_or_upload(sym, graph, stream);
}

/* The other handlers */

CUresult hook_graph_add_mem_alloc_node(enum hook_symbol sym, CUgraphNode *node, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t num_dependencies,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUresult result;

    graph_memory_possible();
    result =
        REAL(sym, graph_add_mem_alloc_node)(node, graph, dependencies, num_dependencies, params);
    trace_memory(sym, params != NULL ? params->bytesize : 0,
                 result == CUDA_SUCCESS ? params->dptr : 0, result);
    return result;
}

CUresult hook_graph_add_node(enum hook_symbol sym, CUgraphNode *node, CUgraph graph,
                             const CUgraphNode *dependencies, size_t num_dependencies,
                             CUgraphNodeParams *params)
{
    if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        graph_memory_possible();
    return REAL(sym, graph_add_node)(node, graph, dependencies, num_dependencies, params);
}

CUresult hook_graph_add_node_v2(enum hook_symbol sym, CUgraphNode *node, CUgraph graph,
                                const CUgraphNode *dependencies,
                                const CUgraphEdgeData *dependency_data, size_t num_dependencies,
                                CUgraphNodeParams *params)
{
    if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        graph_memory_possible();
    return REAL(sym, graph_add_node_v2)(node, graph, dependencies, dependency_data,
                                        num_dependencies, params);
}

CUresult hook_graph_instantiate(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph,
                                CUgraphNode *error_node, char *log_buffer, size_t buffer_size)
{
    struct graph_memory *memory = exec != NULL ? memory_of_graph(graph) : NULL;
    CUgraphExec made = NULL;
    CUresult result;

    if (memory == NULL)
        return graph_forget_cost(
            exec, REAL(sym, graph_instantiate)(exec, graph, error_node, log_buffer, buffer_size));
    result = REAL(sym, graph_instantiate)(&made, graph, error_node, log_buffer, buffer_size);
    return graph_instantiated(exec, made, memory, result);
}

CUresult hook_graph_instantiate_with_flags(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph,
                                           unsigned long long flags)
{
    struct graph_memory *memory = exec != NULL ? memory_of_graph(graph) : NULL;
    CUgraphExec made = NULL;
    CUresult result;

    if (memory == NULL)
        return graph_forget_cost(exec, REAL(sym, graph_instantiate_with_flags)(exec, graph, flags));
    result = REAL(sym, graph_instantiate_with_flags)(&made, graph, flags);
    return graph_instantiated(exec, made, memory, result);
}

CUresult hook_graph_instantiate_with_params(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct launch launch;
    CUgraphExec made = NULL;
    bool uploads;
    CUresult result;

    launch.memory = exec != NULL && params != NULL ? memory_of_graph(graph) : NULL;
    if (launch.memory == NULL)
        return graph_forget_cost(exec,
                                 REAL(sym, graph_instantiate_with_params)(exec, graph, params));
    uploads = (params->flags & INSTANTIATE_UPLOADS) != 0;
    if (uploads &&
        !begin_places(sym, &launch, params->hUploadStream, hook_symbol_per_thread(sym))) {
        free(launch.memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = REAL(sym, graph_instantiate_with_params)(&made, graph, params);
    if (uploads)
        end_places(&launch, launch.memory->count, result);
    return graph_instantiated(exec, made, launch.memory, result);
}

CUresult hook_graph_exec_destroy(enum hook_symbol sym, CUgraphExec exec)
{
    struct graph_memory *memory = NULL;
    CUresult result;

    if (atomic_load_explicit(&exec_count, memory_order_relaxed) > 0)
        memory = take_exec(exec);
    result = REAL(sym, graph_exec_destroy)(exec);
    if (result == CUDA_SUCCESS)
        compute_forget(graph_cost_key(exec));
    if (memory == NULL)
        return result;
    if (result != CUDA_SUCCESS && put_exec(exec, memory))
        return result;
    free(memory);
    driver_sized_refresh_all(&backing_driver);
    return result;
}

CUresult hook_graph_mem_trim(enum hook_symbol sym, CUdevice device)
{
    bool ours = device >= 0 && device < VGPU_DEVICES_MAX;
    CUresult result;

    if (ours)
        atomic_fetch_add(&backings[device].trims, 1);
    result = REAL(sym, graph_mem_trim)(device);
    if (ours)
        atomic_fetch_add(&backings[device].trims, 1);
    driver_sized_refresh_all(&backing_driver);
    trace_memory(sym, 0, 0, result);
    return result;
}

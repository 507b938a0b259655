#include "starts.h"

/* Launches: the kernel's one argument is its duration. */

#define SHAPE 1, 1, 1, 1, 1, 1, 0

static CUresult by_kernel(struct start *start)
{
    return cu.cuLaunchKernel(start->kernel, SHAPE, start->stream, start->arguments, NULL);
}

static CUresult by_kernel_ptsz(struct start *start)
{
    return cu.cuLaunchKernel_ptsz(start->kernel, SHAPE, NULL, start->arguments, NULL);
}

static CUlaunchConfig config_of(CUstream stream)
{
    return (CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
}

static CUresult by_ex(struct start *start)
{
    CUlaunchConfig config = config_of(start->stream);
    return cu.cuLaunchKernelEx(&config, start->kernel, start->arguments, NULL);
}

static CUresult by_ex_ptsz(struct start *start)
{
    CUlaunchConfig config = config_of(NULL);
    return cu.cuLaunchKernelEx_ptsz(&config, start->kernel, start->arguments, NULL);
}

static CUresult by_cooperative(struct start *start)
{
    return cu.cuLaunchCooperativeKernel(start->kernel, SHAPE, start->stream, start->arguments);
}

static CUresult by_cooperative_ptsz(struct start *start)
{
    return cu.cuLaunchCooperativeKernel_ptsz(start->kernel, SHAPE, NULL, start->arguments);
}

static CUDA_LAUNCH_PARAMS params_of(struct start *start, CUfunction kernel, CUstream stream)
{
    return (CUDA_LAUNCH_PARAMS){kernel, 1, 1, 1, 1, 1, 1, 0, stream, start->arguments};
}

/* A launch on this device and the next one. */
static void prepare_multi(struct start *start)
{
    CUcontext here = NULL;
    CUdevice device = 0;

    CU_OK(cu.cuCtxGetCurrent(&here));
    CU_OK(cu.cuCtxGetDevice(&device));
    start->launches[0] = params_of(start, start->kernel, start->stream);
    CU_OK(cu.cuDevicePrimaryCtxRetain(&start->other, device + 1));
    CU_OK(cu.cuCtxSetCurrent(start->other));
    CUfunction kernel = new_kernel("simgpu_busy", &start->other_module);
    start->launches[1] = params_of(start, kernel, new_stream());
    CU_OK(cu.cuCtxSetCurrent(here));
}

static CUresult by_multi(struct start *start)
{
    return cu.cuLaunchCooperativeKernelMultiDevice(start->launches, 2, 0);
}

static void change_old(struct start *start)
{
    CU_OK(cu.cuParamSetv(start->kernel, 0, &start->duration_ns, sizeof start->duration_ns));
}

static void prepare_old(struct start *start)
{
    CU_OK(cu.cuFuncSetBlockShape(start->kernel, 32, 1, 1));
    CU_OK(cu.cuParamSetSize(start->kernel, sizeof start->duration_ns));
    change_old(start);
}

static CUresult by_block(struct start *start)
{
    return cu.cuLaunch(start->kernel);
}

static CUresult by_grid(struct start *start)
{
    return cu.cuLaunchGrid(start->kernel, 4, 4);
}

static CUresult by_grid_async(struct start *start)
{
    return cu.cuLaunchGridAsync(start->kernel, 4, 4, start->stream);
}

/* Graphs: one kernel takes the time, or several share it. */

static CUDA_KERNEL_NODE_PARAMS node_params(struct start *start, void **arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = start->kernel,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = arguments};
}

static void prepare_graph(struct start *start)
{
    uint64_t each_ns = start->duration_ns / start->nodes;
    void *arguments[] = {&each_ns};
    CUDA_KERNEL_NODE_PARAMS params = node_params(start, arguments);
    CUgraphNode before = NULL;

    CU_OK(cu.cuGraphCreate(&start->graph, 0));
    for (unsigned i = 0; i < start->nodes; i++) {
        CU_OK(cu.cuGraphAddKernelNode_v2(&start->node, start->graph, &before, before != NULL,
                                         &params));
        before = start->node;
    }
    CU_OK(cu.cuGraphInstantiateWithFlags(&start->exec, start->graph, 0));
}

/* The rest of the duration is that of the last node. */
static CUDA_KERNEL_NODE_PARAMS changed_params(struct start *start)
{
    return node_params(start, start->arguments);
}

static void change_by_params(struct start *start)
{
    CUDA_KERNEL_NODE_PARAMS params = changed_params(start);
    CU_OK(cu.cuGraphExecKernelNodeSetParams_v2(start->exec, start->node, &params));
}

static void change_by_update(struct start *start)
{
    CUDA_KERNEL_NODE_PARAMS params = changed_params(start);
    CUgraphExecUpdateResultInfo info;
    CU_OK(cu.cuGraphKernelNodeSetParams_v2(start->node, &params));
    CU_OK(cu.cuGraphExecUpdate_v2(start->exec, start->graph, &info));
}

static void change_by_new(struct start *start)
{
    CUDA_KERNEL_NODE_PARAMS params = changed_params(start);
    CU_OK(cu.cuGraphExecDestroy(start->exec));
    CU_OK(cu.cuGraphKernelNodeSetParams_v2(start->node, &params));
    CU_OK(cu.cuGraphInstantiateWithFlags(&start->exec, start->graph, 0));
}

static CUresult by_graph(struct start *start)
{
    return cu.cuGraphLaunch(start->exec, start->stream);
}

static CUresult by_graph_ptsz(struct start *start)
{
    return cu.cuGraphLaunch_ptsz(start->exec, NULL);
}

/* Memsets and copies: a copy reads and writes. */

static uint64_t bytes_in(const struct start *start)
{
    return (uint64_t)((double)start->duration_ns * (double)STARTS_BANDWIDTH / 1e9) / 4096 * 4096;
}

static void prepare_memory(struct start *start)
{
    start->bytes = bytes_in(start);
    CU_OK(cu.cuMemAlloc_v2(&start->memory, start->bytes));
}

static CUresult by_memset(struct start *start)
{
    return cu.cuMemsetD8Async(start->memory, 1, start->bytes, start->stream);
}

static CUresult by_memset_sync(struct start *start)
{
    return cu.cuMemsetD8_v2(start->memory, 1, start->bytes);
}

static CUresult by_memset_2d(struct start *start)
{
    return cu.cuMemsetD2D32Async(start->memory, 4096, 1, 1024, start->bytes / 4096, start->stream);
}

static CUdeviceptr half(const struct start *start)
{
    return start->memory + start->bytes / 2;
}

static CUresult by_copy(struct start *start)
{
    return cu.cuMemcpyDtoDAsync_v2(start->memory, half(start), start->bytes / 2, start->stream);
}

static CUresult by_copy_sync(struct start *start)
{
    return cu.cuMemcpyDtoD_v2(start->memory, half(start), start->bytes / 2);
}

static CUresult by_copy_any(struct start *start)
{
    return cu.cuMemcpyAsync(start->memory, half(start), start->bytes / 2, start->stream);
}

static CUresult by_copy_2d(struct start *start)
{
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = half(start),
        .srcPitch = 2048,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = start->memory,
        .dstPitch = 2048,
        .WidthInBytes = 2048,
        .Height = start->bytes / 4096,
    };
    return cu.cuMemcpy2DAsync_v2(&copy, start->stream);
}

const struct start_way starts[] = {
    {"kernel", NULL, by_kernel, NULL, false},
    {"kernel_ptsz", NULL, by_kernel_ptsz, NULL, true},
    {"ex", NULL, by_ex, NULL, false},
    {"ex_ptsz", NULL, by_ex_ptsz, NULL, true},
    {"cooperative", NULL, by_cooperative, NULL, false},
    {"cooperative_ptsz", NULL, by_cooperative_ptsz, NULL, true},
    {"cooperative_multi", prepare_multi, by_multi, NULL, false},
    {"old_block", prepare_old, by_block, change_old, true},
    {"old_grid", prepare_old, by_grid, change_old, true},
    {"old_grid_async", prepare_old, by_grid_async, change_old, false},
    {"graph", prepare_graph, by_graph, change_by_new, false},
    {"graph_ptsz", prepare_graph, by_graph_ptsz, change_by_new, true},
    {"graph_updated", prepare_graph, by_graph, change_by_update, false},
    {"graph_params", prepare_graph, by_graph, change_by_params, false},
    {"memset", prepare_memory, by_memset, NULL, false},
    {"memset_sync", prepare_memory, by_memset_sync, NULL, true},
    {"memset_2d", prepare_memory, by_memset_2d, NULL, false},
    {"copy", prepare_memory, by_copy, NULL, false},
    {"copy_sync", prepare_memory, by_copy_sync, NULL, true},
    {"copy_any", prepare_memory, by_copy_any, NULL, false},
    {"copy_2d", prepare_memory, by_copy_2d, NULL, false},
};
const unsigned start_count = sizeof starts / sizeof *starts;

void start_prepare(struct start *start, const char *way, uint64_t duration_ns, unsigned nodes)
{
    *start = (struct start){.duration_ns = duration_ns, .nodes = nodes ? nodes : 1};
    for (unsigned i = 0; i < start_count; i++)
        if (!strcmp(starts[i].name, way))
            start->way = &starts[i];
    if (!start->way)
        FAIL("there is no way %s", way);
    start->arguments[0] = &start->duration_ns;
    start->kernel = new_kernel("simgpu_busy", &start->module);
    start->stream = new_stream();
    if (start->way->prepare)
        start->way->prepare(start);
}

CUresult start_once(struct start *start)
{
    return start->way->start(start);
}

void start_change(struct start *start, uint64_t duration_ns)
{
    start->duration_ns = duration_ns;
    if (start->way->change)
        start->way->change(start);
}

void start_wait(struct start *start)
{
    CU_OK(start->way->own_stream ? cu.cuCtxSynchronize() : cu.cuStreamSynchronize(start->stream));
}

void start_done(struct start *start)
{
    CUdevice device = 0;

    start_wait(start);
    if (start->exec)
        CU_OK(cu.cuGraphExecDestroy(start->exec));
    if (start->graph)
        CU_OK(cu.cuGraphDestroy(start->graph));
    if (start->memory)
        CU_OK(cu.cuMemFree_v2(start->memory));
    CU_OK(cu.cuStreamDestroy_v2(start->stream));
    CU_OK(cu.cuModuleUnload(start->module));
    if (!start->other)
        return;
    CU_OK(cu.cuCtxGetDevice(&device));
    CU_OK(cu.cuCtxPushCurrent_v2(start->other));
    CU_OK(cu.cuStreamDestroy_v2(start->launches[1].hStream));
    CU_OK(cu.cuModuleUnload(start->other_module));
    CU_OK(cu.cuCtxPopCurrent_v2(&start->other));
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(device + 1));
}

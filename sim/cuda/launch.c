/* Kernel launches and host functions. */
#include "launch.h"

#include <stdlib.h>

static int check_shape(const unsigned *grid, const unsigned *block)
{
    if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
        return CUDA_ERROR_INVALID_VALUE;
    if (grid[0] > 2147483647 || grid[1] > 65535 || grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    return (uint64_t)block[0] * block[1] * block[2] > 1024 ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
}

static int capture_kernel(struct sim_stream *stream, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    sim_lock();
    int code = capture_check(stream);
    struct sim_node *node =
        code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_KERNEL);
    if (node) {
        node_set_kernel(node, parameters);
        code = capture_add(stream, node);
    }
    sim_unlock();
    return code;
}

void launch_load(struct sim_function *function, struct sim_context *context)
{
    while (sim.lazy && !function->loaded) {
        struct sim_stream *stream = held_streams;
        while (stream && !(stream->first && stream->context == context))
            stream = stream->next_held;
        if (!stream)
            break;
        worker_wait();
    }
    function->loaded = true;
}

int launch_function(struct sim_function *function, const unsigned *grid, const unsigned *block,
                    unsigned shared_bytes, struct sim_stream *handle, void **params, void **extra)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    NEED_STREAM(stream, handle);
    TRY(check_shape(grid, block));
    if (stream_captures(stream)) {
        CUDA_KERNEL_NODE_PARAMS parameters = {
            .func = function,
            .gridDimX = grid[0],
            .gridDimY = grid[1],
            .gridDimZ = grid[2],
            .blockDimX = block[0],
            .blockDimY = block[1],
            .blockDimZ = block[2],
            .sharedMemBytes = shared_bytes,
            .kernelParams = params,
            .extra = extra,
        };
        return capture_kernel(stream, &parameters);
    }
    int code = capture_legacy_check(stream);
    if (code || sim.noop)
        return code;
    struct sim_kernel kernel = function_kernel(function, params, extra);
    sim_lock();
    launch_load(function, stream->context);
    work_room(stream);
    code = work_submit(stream, (struct sim_op){.kind = OP_KERNEL, .kernel = kernel});
    sim_unlock();
    return code;
}

/* True if a launch can end at once: with SIMGPU_NOOP, unless there is a capture. */
static inline bool nothing_to_do(struct sim_function *function)
{
    return __builtin_expect(sim.noop, 0) && IS(function, MAGIC_FUNCTION) && sim_thread.depth &&
           !__atomic_load_n(&capture_count, __ATOMIC_RELAXED);
}

API(cuLaunchKernel, struct sim_function *function, unsigned grid_x, unsigned grid_y,
    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
    struct sim_stream *stream, void **params, void **extra)
{
    ENTER(cuLaunchKernel);
    if (nothing_to_do(function))
        return CUDA_SUCCESS;
    return launch_function(function, (unsigned[]){grid_x, grid_y, grid_z},
                           (unsigned[]){block_x, block_y, block_z}, shared_bytes, stream, params,
                           extra);
}

API(cuLaunchKernel_ptsz, struct sim_function *function, unsigned grid_x, unsigned grid_y,
    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
    struct sim_stream *stream, void **params, void **extra)
{
    ENTER(cuLaunchKernel_ptsz);
    if (nothing_to_do(function))
        return CUDA_SUCCESS;
    return launch_function(function, (unsigned[]){grid_x, grid_y, grid_z},
                           (unsigned[]){block_x, block_y, block_z}, shared_bytes, PTSZ(stream),
                           params, extra);
}

API(cuLaunchCooperativeKernel, struct sim_function *function, unsigned grid_x, unsigned grid_y,
    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
    struct sim_stream *stream, void **params)
{
    ENTER(cuLaunchCooperativeKernel);
    return launch_function(function, (unsigned[]){grid_x, grid_y, grid_z},
                           (unsigned[]){block_x, block_y, block_z}, shared_bytes, stream, params,
                           NULL);
}

API(cuLaunchCooperativeKernel_ptsz, struct sim_function *function, unsigned grid_x, unsigned grid_y,
    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
    struct sim_stream *stream, void **params)
{
    ENTER(cuLaunchCooperativeKernel_ptsz);
    return launch_function(function, (unsigned[]){grid_x, grid_y, grid_z},
                           (unsigned[]){block_x, block_y, block_z}, shared_bytes, PTSZ(stream),
                           params, NULL);
}

API(cuLaunchKernelEx, const CUlaunchConfig *config, struct sim_function *function, void **params,
    void **extra)
{
    ENTER(cuLaunchKernelEx);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    if (nothing_to_do(function))
        return CUDA_SUCCESS;
    return launch_function(function, &config->gridDimX, &config->blockDimX, config->sharedMemBytes,
                           config->hStream, params, extra);
}

API(cuLaunchKernelEx_ptsz, const CUlaunchConfig *config, struct sim_function *function,
    void **params, void **extra)
{
    ENTER(cuLaunchKernelEx_ptsz);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    if (nothing_to_do(function))
        return CUDA_SUCCESS;
    return launch_function(function, &config->gridDimX, &config->blockDimX, config->sharedMemBytes,
                           PTSZ((struct sim_stream *)config->hStream), params, extra);
}

/* Makes each stream wait for all of them. The events stay, as their last use is not known. */
static int meet(struct sim_stream *const *streams, unsigned count)
{
    struct sim_event *events[SIM_MAX_DEVICES];
    int code = CUDA_SUCCESS;

    for (unsigned at = 0; at < count && !code; at++) {
        events[at] = sim_object(sizeof(*events[at]), MAGIC_EVENT);
        if (!events[at])
            return CUDA_ERROR_OUT_OF_MEMORY;
        events[at]->context = streams[at]->context;
        code = work_submit(streams[at], (struct sim_op){.kind = OP_RECORD, .event = events[at]});
    }
    for (unsigned at = 0; at < count * count && !code; at++) {
        if (at / count != at % count)
            code = work_submit(streams[at / count],
                               (struct sim_op){.kind = OP_WAIT, .event = events[at % count]});
    }
    return code;
}

enum { NO_PRE_LAUNCH_SYNC = 1, NO_POST_LAUNCH_SYNC = 2 };

static int launch_all(CUDA_LAUNCH_PARAMS *launches, struct sim_stream *const *streams,
                      unsigned count, unsigned flags)
{
    int code = CUDA_SUCCESS;

    if (sim.noop)
        flags = NO_PRE_LAUNCH_SYNC | NO_POST_LAUNCH_SYNC;
    sim_lock();
    if (!(flags & NO_PRE_LAUNCH_SYNC))
        code = meet(streams, count);
    sim_unlock();
    for (unsigned at = 0; at < count && !code; at++)
        code = launch_function(launches[at].function, &launches[at].gridDimX,
                               &launches[at].blockDimX, launches[at].sharedMemBytes,
                               launches[at].hStream, launches[at].kernelParams, NULL);
    sim_lock();
    if (!code && !(flags & NO_POST_LAUNCH_SYNC))
        code = meet(streams, count);
    sim_unlock();
    return code;
}

/* One kernel on each of several devices. */
API(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *launches, unsigned count,
    unsigned flags)
{
    struct sim_stream *streams[SIM_MAX_DEVICES];
    int code = CUDA_SUCCESS;

    ENTER(cuLaunchCooperativeKernelMultiDevice);
    if (!launches || !count || count > (unsigned)sim.device_count || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned at = 0; at < count && !code; at++) {
        if ((uintptr_t)launches[at].hStream <= 2)
            return CUDA_ERROR_INVALID_HANDLE;
        code = stream_resolve(launches[at].hStream, &streams[at]);
        for (unsigned other = 0; other < at && !code; other++) {
            if (streams[other]->context->device == streams[at]->context->device)
                code = CUDA_ERROR_INVALID_DEVICE;
        }
        if (!code && stream_captures(streams[at]))
            code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return code ? code : launch_all(launches, streams, count, flags);
}

static int capture_host(struct sim_stream *stream, void (*function)(void *), void *user)
{
    sim_lock();
    int code = capture_check(stream);
    struct sim_node *node = code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_HOST);
    if (node) {
        node->u.host = (CUDA_HOST_NODE_PARAMS){function, user};
        code = capture_add(stream, node);
    }
    sim_unlock();
    return code;
}

static int host_function(struct sim_stream *handle, void (*function)(void *), void *user)
{
    NEED_STREAM(stream, handle);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_captures(stream))
        return capture_host(stream, function, user);
    TRY(capture_legacy_check(stream));
    sim_lock();
    int code = work_call(stream, function, user);
    sim_unlock();
    return code;
}

API_PTSZ(cuLaunchHostFunc, host_function(stream, function, user), struct sim_stream *stream,
         CUhostFn function, void *user)

struct callback {
    void (*function)(struct sim_stream *stream, int status, void *user);
    struct sim_stream *stream;
    void *user;
};

static void run_callback(void *argument)
{
    struct callback *callback = argument;

    callback->function(callback->stream, CUDA_SUCCESS, callback->user);
    free(callback);
}

static int add_callback(struct sim_stream *handle, struct sim_stream *shown,
                        void (*function)(struct sim_stream *, int, void *), void *user,
                        unsigned flags)
{
    NEED_STREAM(stream, handle);
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_captures(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct callback *callback = malloc(sizeof(*callback));
    if (!callback)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *callback = (struct callback){function, shown, user};
    sim_lock();
    int code = work_call(stream, run_callback, callback);
    sim_unlock();
    if (code)
        free(callback);
    return code;
}

API_PTSZ(cuStreamAddCallback, add_callback(stream, stream, function, user, flags),
         struct sim_stream *stream, void (*function)(struct sim_stream *, int, void *), void *user,
         unsigned flags)

/* Kernel launches. */
#include "hook/work/current.h"
#include "hook/work/work.h"

/* Exact for every shape that a launch can have: a grid has up to 2^31 - 1, 65535 and 65535. */
static uint64_t shape(uint64_t x, uint64_t y, uint64_t z)
{
    return x | y << 32 | z << 48;
}

static struct work kernel(enum hook_symbol sym, CUfunction function, uint64_t grid, uint64_t block,
                          CUstream stream)
{
    return (struct work){
        .kind = VGPU_WORK_KERNEL,
        .per_thread = hook_symbol_per_thread(sym),
        .stream = stream,
        .key = cost_key((uintptr_t)function, grid, block),
    };
}

#define LAUNCH(handler, none, grid, block, stream)                                                 \
    WORK(handler, (void)0, none, kernel(sym, function, grid, block, stream))

LAUNCH(launch_kernel, false, shape(grid_x, grid_y, grid_z), shape(block_x, block_y, block_z),
       stream)
LAUNCH(launch_cooperative, false, shape(grid_x, grid_y, grid_z), shape(block_x, block_y, block_z),
       stream)
LAUNCH(launch_kernel_ex, config == NULL,
       shape(config->gridDimX, config->gridDimY, config->gridDimZ),
       shape(config->blockDimX, config->blockDimY, config->blockDimZ), config->hStream)

/* Launches of CUDA 3: cuFuncSetBlockShape has given the shape of their blocks before. */
LAUNCH(launch_block, false, shape(1, 1, 1), 0, NULL)
LAUNCH(launch_grid, false, shape((unsigned)width, (unsigned)height, 1), 0, NULL)
LAUNCH(launch_grid_async, false, shape((unsigned)width, (unsigned)height, 1), 0, stream)

/* One kernel on each of several devices, each with a stream of its own. What begins and ends there
 * does so in the stream's context, or, if that is not to be had, in the current one. */
static bool enter_context_of(CUstream stream)
{
    CUcontext context;
    bool pushed = false;

    if (DRIVER(cuStreamGetCtx)(stream, &context) == CUDA_SUCCESS)
        context_enter(context, &pushed);
    return pushed;
}

static void each(struct work *works, unsigned count, void step(struct work *work))
{
    for (unsigned i = 0; i < count; i++) {
        bool entered = enter_context_of(works[i].stream);

        step(&works[i]);
        context_leave(entered);
    }
}

CUresult hook_launch_multi_device(enum hook_symbol sym, CUDA_LAUNCH_PARAMS *launches,
                                  unsigned int count, unsigned int flags)
{
    struct work works[VGPU_DEVICES_MAX];
    CUresult result;

    if (launches == NULL || count == 0 || count > VGPU_DEVICES_MAX || compute_off())
        return REAL(sym, launch_multi_device)(launches, count, flags);
    for (unsigned i = 0; i < count; i++)
        works[i] =
            kernel(sym, launches[i].function,
                   shape(launches[i].gridDimX, launches[i].gridDimY, launches[i].gridDimZ),
                   shape(launches[i].blockDimX, launches[i].blockDimY, launches[i].blockDimZ),
                   launches[i].hStream);
    each(works, count, compute_admit);
    each(works, count, compute_enter);
    each(works, count, compute_measure);
    result = REAL(sym, launch_multi_device)(launches, count, flags);
    for (unsigned i = 0; i < count; i++) {
        bool entered = enter_context_of(works[i].stream);

        compute_end(&works[i], result);
        context_leave(entered);
    }
    return result;
}

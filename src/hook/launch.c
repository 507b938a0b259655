/*
 * Kernel launches: forwarded.
 */
#include "hook/hook.h"

CUresult hook_launch_kernel(enum hook_row row, CUfunction function, unsigned int grid_x, unsigned int grid_y,
                            unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
                            unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
    return REAL(row, launch_kernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                    params, extra);
}

CUresult hook_launch_cooperative(enum hook_row row, CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                 unsigned int shared_bytes, CUstream stream, void **params)
{
    return REAL(row, launch_cooperative)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                         stream, params);
}

CUresult hook_launch_kernel_ex(enum hook_row row, const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra)
{
    return REAL(row, launch_kernel_ex)(config, function, params, extra);
}

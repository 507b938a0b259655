/*
 * Functions of the first ABI. Those for memory have 32-bit addresses, and the real driver refuses
 * them in today's contexts (measured), so there is nothing to simulate. For those that launch, the
 * function keeps shape and parameters.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

API_AS(cuMemAlloc, CUDA_ERROR_INVALID_CONTEXT, unsigned *ret_address, unsigned bytes)
API_AS(cuMemAllocPitch, CUDA_ERROR_INVALID_CONTEXT, unsigned *ret_address, unsigned *ret_pitch,
       unsigned width, unsigned height, unsigned element_bytes)
API_AS(cuMemFree, CUDA_ERROR_INVALID_CONTEXT, unsigned address)

API(cuMemGetInfo, unsigned *ret_free, unsigned *ret_total)
{
    ENTER(cuMemGetInfo);
    if (ret_free)
        *ret_free = 0;
    if (ret_total)
        *ret_total = 0;
    return CUDA_ERROR_INVALID_CONTEXT;
}

API(cuFuncSetBlockShape, struct sim_function *function, int x, int y, int z)
{
    ENTER(cuFuncSetBlockShape);
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (x < 1 || y < 1 || z < 1 || (int64_t)x * y * z > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    function->block[0] = x;
    function->block[1] = y;
    function->block[2] = z;
    return CUDA_SUCCESS;
}

API(cuFuncSetSharedSize, struct sim_function *function, unsigned bytes)
{
    ENTER(cuFuncSetSharedSize);
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    function->shared_bytes = bytes;
    return CUDA_SUCCESS;
}

API(cuParamSetSize, struct sim_function *function, unsigned bytes)
{
    ENTER(cuParamSetSize);
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes > SIM_PARAMETER_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    function->parameter_bytes = bytes;
    return CUDA_SUCCESS;
}

static int set_parameter(struct sim_function *function, int offset, const void *from,
                         unsigned bytes)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset < 0 || !from || bytes > SIM_PARAMETER_BYTES ||
        (unsigned)offset > SIM_PARAMETER_BYTES - bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function->parameters)
        function->parameters = calloc(1, SIM_PARAMETER_BYTES);
    if (!function->parameters)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(function->parameters + offset, from, bytes);
    return CUDA_SUCCESS;
}

API_AS(cuParamSeti, set_parameter(function, offset, &value, sizeof(value)),
       struct sim_function *function, int offset, unsigned value)
API_AS(cuParamSetf, set_parameter(function, offset, &value, sizeof(value)),
       struct sim_function *function, int offset, float value)
API_AS(cuParamSetv, set_parameter(function, offset, from, bytes), struct sim_function *function,
       int offset, void *from, unsigned bytes)

static int launch(struct sim_function *function, int width, int height, struct sim_stream *stream)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = function->parameter_bytes;
    const unsigned *block = (const unsigned *)function->block;
    void *extra[] = {(void *)1, function->parameters, (void *)2, &bytes, NULL};
    return launch_function(function, (unsigned[]){(unsigned)width, (unsigned)height, 1}, block,
                           function->shared_bytes, stream, NULL,
                           function->parameters ? extra : NULL);
}

API_AS(cuLaunch, launch(function, 1, 1, STREAM_LEGACY), struct sim_function *function)
API_AS(cuLaunchGrid, launch(function, width, height, STREAM_LEGACY), struct sim_function *function,
       int width, int height)
API_AS(cuLaunchGridAsync, launch(function, width, height, stream), struct sim_function *function,
       int width, int height, struct sim_stream *stream)

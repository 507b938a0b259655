/* Attributes of functions, and occupancy. */
#include "image.h"
#include "launch.h"

enum {
    FUNC_MAX_THREADS = 0,
    FUNC_REGISTERS = 4,
    FUNC_PTX = 5,
    FUNC_BINARY = 6,
    FUNC_DYNAMIC_SHARED = 8,
    FUNC_ATTRIBUTES = 16,
};

static int get_attribute(int *ret_value, int attribute, struct sim_function *function)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_value || attribute < 0 || attribute >= FUNC_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case FUNC_MAX_THREADS:
        *ret_value = 1024;
        break;
    case FUNC_REGISTERS:
        *ret_value = 32;
        break;
    case FUNC_PTX:
    case FUNC_BINARY:
        *ret_value = 90;
        break;
    case FUNC_DYNAMIC_SHARED:
        *ret_value = function->attributes[attribute] ? function->attributes[attribute] : 49152;
        break;
    default:
        *ret_value = function->attributes[attribute];
    }
    return CUDA_SUCCESS;
}

static int set_attribute(struct sim_function *function, int attribute, int value)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute < FUNC_DYNAMIC_SHARED || attribute >= FUNC_ATTRIBUTES ||
        (attribute == FUNC_DYNAMIC_SHARED && (value < 0 || value > 232448)))
        return CUDA_ERROR_INVALID_VALUE;
    function->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

API_AS(cuFuncGetAttribute, get_attribute(ret_value, attribute, function), int *ret_value,
       int attribute, struct sim_function *function)
API_AS(cuFuncSetAttribute, set_attribute(function, attribute, value), struct sim_function *function,
       int attribute, int value)
API_AS(cuKernelGetAttribute,
       sim_ordinal_valid(ordinal) ? get_attribute(ret_value, attribute, kernel)
                                  : CUDA_ERROR_INVALID_DEVICE,
       int *ret_value, int attribute, struct sim_function *kernel, int ordinal)
API_AS(cuKernelSetAttribute,
       sim_ordinal_valid(ordinal) ? set_attribute(kernel, attribute, value)
                                  : CUDA_ERROR_INVALID_DEVICE,
       int attribute, int value, struct sim_function *kernel, int ordinal)
API_TWINS(cuFuncSetCacheConfig, cuFuncSetSharedMemConfig,
          IS(function, MAGIC_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE,
          struct sim_function *function, int config)
API_AS(cuKernelSetCacheConfig,
       IS(kernel, MAGIC_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE,
       struct sim_function *kernel, int config, int ordinal)

static int get_name(const char **ret_name, struct sim_function *function)
{
    if (!ret_name || !IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_name = function->name;
    return CUDA_SUCCESS;
}

API_AS(cuFuncGetName, get_name(ret_name, function), const char **ret_name,
       struct sim_function *function)
API_AS(cuKernelGetName, get_name(ret_name, kernel), const char **ret_name,
       struct sim_function *kernel)

static int param_info(struct sim_function *function, size_t index, size_t *ret_offset,
                      size_t *ret_bytes)
{
    const unsigned char *bytes;

    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_symbol *symbol = function->symbol;
    if (symbol) {
        if (!ret_offset || index >= symbol->parameter_count)
            return CUDA_ERROR_INVALID_VALUE;
        *ret_offset = symbol->parameters[index].offset;
        if (ret_bytes)
            *ret_bytes = symbol->parameters[index].bytes;
        return CUDA_SUCCESS;
    }
    if (!ret_offset || index >= (size_t)function_parameters(function, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_offset = index ? bytes[0] : 0;
    if (ret_bytes)
        *ret_bytes = bytes[index];
    return CUDA_SUCCESS;
}

API_AS(cuFuncGetParamInfo, param_info(function, index, ret_offset, ret_bytes),
       struct sim_function *function, size_t index, size_t *ret_offset, size_t *ret_bytes)
API_AS(cuKernelGetParamInfo, param_info(kernel, index, ret_offset, ret_bytes),
       struct sim_function *kernel, size_t index, size_t *ret_offset, size_t *ret_bytes)

API(cuFuncIsLoaded, int *ret_state, struct sim_function *function)
{
    ENTER(cuFuncIsLoaded);
    if (!ret_state || !IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_state = !sim.lazy || function->loaded;
    return CUDA_SUCCESS;
}

API(cuFuncLoad, struct sim_function *function)
{
    ENTER(cuFuncLoad);
    NEED_CONTEXT(context);
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    launch_load(function, context);
    sim_unlock();
    return CUDA_SUCCESS;
}

static int blocks_per_sm(int *ret_blocks, struct sim_function *function, int threads)
{
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_blocks || threads < 1)
        return CUDA_ERROR_INVALID_VALUE;
    int blocks = threads > 1024 ? 0 : 2048 / ((threads + 31) / 32 * 32);
    *ret_blocks = blocks > 32 ? 32 : blocks;
    return CUDA_SUCCESS;
}

API_AS(cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks_per_sm(ret_blocks, function, threads),
       int *ret_blocks, struct sim_function *function, int threads, size_t shared_bytes)
API_AS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       blocks_per_sm(ret_blocks, function, threads), int *ret_blocks, struct sim_function *function,
       int threads, size_t shared_bytes, unsigned flags)

static int potential(int *ret_grid, int *ret_block, struct sim_function *function, int limit)
{
    NEED_CONTEXT(context);
    if (!IS(function, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_grid || !ret_block)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_block = limit > 0 && limit < 1024 ? limit : 1024;
    *ret_grid = SIM_SMS * (2048 / *ret_block);
    return CUDA_SUCCESS;
}

API_AS(cuOccupancyMaxPotentialBlockSize, potential(ret_grid, ret_block, function, limit),
       int *ret_grid, int *ret_block, struct sim_function *function, void *shared_of_block,
       size_t shared_bytes, int limit)
API_AS(cuOccupancyMaxPotentialBlockSizeWithFlags, potential(ret_grid, ret_block, function, limit),
       int *ret_grid, int *ret_block, struct sim_function *function, void *shared_of_block,
       size_t shared_bytes, int limit, unsigned flags)

/* CUDA arrays: their size, and the device memory that they take. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define PAGE       65536ULL /* sizes come in steps of this */
#define GOB_WIDTH  64       /* bytes */
#define GOB_HEIGHT 8        /* rows */

struct sim_array {
    unsigned magic;
    bool part; /* a level of a mipmapped array */
    struct sim_context *context;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    uint64_t bytes; /* as cuArrayGetMemoryRequirements has it */
    devptr memory;  /* 0: sparse or deferred */
    struct sim_array *next;
};

struct sim_mipmap {
    unsigned magic;
    struct sim_array *levels[24];
    unsigned count;
    struct sim_array *whole; /* holds the memory */
};

static unsigned element_bytes(int format)
{
    switch (format) {
    case 0x01:
    case 0x08:
        return 1;
    case 0x02:
    case 0x09:
    case 0x10:
        return 2;
    case 0x03:
    case 0x0a:
    case 0x20:
        return 4;
    default:
        return format >= 0x50 && format <= 0xcb ? 4 : 0;
    }
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t power_of_two(uint64_t value)
{
    uint64_t power = 1;

    while (power < value)
        power *= 2;
    return power;
}

/*
 * Bytes of one level, before rounding to PAGE. Rows consist of tiles of 64 bytes. A 2D image
 * consists of blocks of up to 16 tiles of 8 rows, a 3D image of blocks of 8 rows and up to 16
 * slices. The sizes are those measured on an H200.
 */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level)
{
    uint64_t width = desc->Width >> level, height = desc->Height >> level, depth = desc->Depth;
    bool layers = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);

    if (!layers)
        depth = depth >> level;
    width =
        round_up((width ? width : 1) * element_bytes(desc->Format) * desc->NumChannels, GOB_WIDTH);
    height = height ? height : 1;
    depth = depth ? depth : 1;
    if (!layers && depth > 1) {
        uint64_t slices = power_of_two(depth) < 16 ? power_of_two(depth) : 16;
        return width * round_up(height, GOB_HEIGHT) * round_up(depth, slices);
    }
    uint64_t tiles = power_of_two((height + GOB_HEIGHT - 1) / GOB_HEIGHT);
    return width * round_up(height, GOB_HEIGHT * (tiles < 16 ? tiles : 16)) * depth;
}

static bool desc_valid(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    bool channels = desc->NumChannels == 1 || desc->NumChannels == 2 || desc->NumChannels == 4;

    return desc->Width && desc->Width <= 268435456 && desc->Height <= 131072 &&
           desc->Depth <= 32768 && element_bytes(desc->Format) && channels &&
           (desc->Height || !desc->Depth || desc->Flags & CUDA_ARRAY3D_LAYERED);
}

static int array_new(const CUDA_ARRAY3D_DESCRIPTOR *desc, uint64_t bytes,
                     struct sim_array **ret_array)
{
    int code = CUDA_SUCCESS;

    NEED_CONTEXT(context);
    TRY(capture_refuse());
    struct sim_array *array = sim_object(sizeof(*array), MAGIC_ARRAY);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->context = context;
    array->desc = *desc;
    array->bytes = round_up(bytes, PAGE);
    sim_lock();
    if (!(desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
        code = memory_alloc(context, SIM_ARRAY, array->bytes, &array->memory);
    if (!code) {
        array->next = context->arrays;
        context->arrays = array;
    }
    sim_unlock();
    if (code)
        free(array);
    else
        *ret_array = array;
    return code;
}

/* The memory ends with the context's other memory: see memory_context_end(). */
void array_context_end(struct sim_context *context)
{
    while (context->arrays) {
        struct sim_array *array = context->arrays;
        context->arrays = array->next;
        handle_retire(array);
    }
}

static void array_free(struct sim_array *array)
{
    LIST_REMOVE(array->context->arrays, array);
    if (array->memory && !array->part)
        address_free(array->memory, NO_ORDER);
    handle_retire(array);
}

static int create_2d(struct sim_array **ret_array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    if (!ret_array || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {desc->Width,  desc->Height,      0,
                                    desc->Format, desc->NumChannels, 0};
    return desc_valid(&full) ? array_new(&full, level_bytes(&full, 0), ret_array)
                             : CUDA_ERROR_INVALID_VALUE;
}

API_AS_KERNEL(cuArrayCreate_v2, create_2d(ret_array, desc), struct sim_array **ret_array,
              const CUDA_ARRAY_DESCRIPTOR *desc)

API(cuArray3DCreate_v2, struct sim_array **ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    ENTER_KERNEL(cuArray3DCreate_v2);
    if (!ret_array || !desc || !desc_valid(desc))
        return CUDA_ERROR_INVALID_VALUE;
    return array_new(desc, level_bytes(desc, 0), ret_array);
}

API(cuArrayCreate, struct sim_array **ret_array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
    ENTER_KERNEL(cuArrayCreate);
    if (!desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY_DESCRIPTOR wide = {desc->Width, desc->Height, desc->Format, desc->NumChannels};
    return create_2d(ret_array, &wide);
}

API(cuArray3DCreate, struct sim_array **ret_array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
    ENTER_KERNEL(cuArray3DCreate);
    if (!ret_array || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR wide = {desc->Width,  desc->Height,      desc->Depth,
                                    desc->Format, desc->NumChannels, desc->Flags};
    return desc_valid(&wide) ? array_new(&wide, level_bytes(&wide, 0), ret_array)
                             : CUDA_ERROR_INVALID_VALUE;
}

API(cuArrayDestroy, struct sim_array *array)
{
    ENTER_KERNEL(cuArrayDestroy);
    if (!IS(array, MAGIC_ARRAY) || array->part)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    array_free(array);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR *ret_desc, struct sim_array *array)
{
    ENTER(cuArrayGetDescriptor_v2);
    if (!IS(array, MAGIC_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_desc)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_desc = (CUDA_ARRAY_DESCRIPTOR){array->desc.Width, array->desc.Height, array->desc.Format,
                                        array->desc.NumChannels};
    return CUDA_SUCCESS;
}

API(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR *ret_desc, struct sim_array *array)
{
    ENTER(cuArray3DGetDescriptor_v2);
    if (!IS(array, MAGIC_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_desc)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_desc = array->desc;
    return CUDA_SUCCESS;
}

static int requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, struct sim_array *array)
{
    if (!ret_needs || !(array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
        return CUDA_ERROR_INVALID_VALUE;
    memset(ret_needs, 0, sizeof(*ret_needs));
    ret_needs->size = array->bytes;
    ret_needs->alignment = PAGE;
    return CUDA_SUCCESS;
}

API(cuArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs,
    struct sim_array *array, int ordinal)
{
    ENTER(cuArrayGetMemoryRequirements);
    if (!IS(array, MAGIC_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_ordinal_valid(ordinal) ? requirements(ret_needs, array) : CUDA_ERROR_INVALID_DEVICE;
}

static unsigned full_levels(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    size_t most = desc->Width > desc->Height ? desc->Width : desc->Height;
    unsigned levels = 1;

    if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && desc->Depth > most)
        most = desc->Depth;
    while (most >>= 1)
        levels++;
    return levels;
}

static struct sim_array *level_new(struct sim_array *whole, unsigned level, uint64_t offset)
{
    struct sim_array *array = sim_object(sizeof(*array), MAGIC_ARRAY);

    if (!array)
        return NULL;
    array->part = true;
    array->context = whole->context;
    array->desc = whole->desc;
    array->desc.Width = whole->desc.Width >> level ? whole->desc.Width >> level : 1;
    if (array->desc.Height)
        array->desc.Height = whole->desc.Height >> level ? whole->desc.Height >> level : 1;
    array->bytes = level_bytes(&whole->desc, level);
    array->memory = whole->memory ? whole->memory + offset : 0;
    return array;
}

API(cuMipmappedArrayCreate, struct sim_mipmap **ret_mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
    unsigned levels)
{
    ENTER_KERNEL(cuMipmappedArrayCreate);
    if (!ret_mipmap || !desc || !desc_valid(desc) || !levels)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mipmap *mipmap = sim_object(sizeof(*mipmap), MAGIC_MIPMAP);
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t bytes = 0;
    mipmap->count = levels < full_levels(desc) ? levels : full_levels(desc);
    for (unsigned level = 0; level < mipmap->count; level++)
        bytes += level_bytes(desc, level);
    int code = array_new(desc, bytes, &mipmap->whole);
    if (code) {
        free(mipmap);
        return code;
    }
    uint64_t offset = 0;
    for (unsigned level = 0; level < mipmap->count; level++) {
        mipmap->levels[level] = level_new(mipmap->whole, level, offset);
        offset += level_bytes(desc, level);
    }
    *ret_mipmap = mipmap;
    return CUDA_SUCCESS;
}

API(cuMipmappedArrayGetLevel, struct sim_array **ret_array, struct sim_mipmap *mipmap,
    unsigned level)
{
    ENTER(cuMipmappedArrayGetLevel);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_array || level >= mipmap->count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_array = mipmap->levels[level];
    return CUDA_SUCCESS;
}

API(cuMipmappedArrayDestroy, struct sim_mipmap *mipmap)
{
    ENTER_KERNEL(cuMipmappedArrayDestroy);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    for (unsigned level = 0; level < mipmap->count; level++) {
        if (mipmap->levels[level])
            handle_retire(mipmap->levels[level]);
    }
    if (IS(mipmap->whole, MAGIC_ARRAY))
        array_free(mipmap->whole);
    handle_retire(mipmap);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuMipmappedArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs,
    struct sim_mipmap *mipmap, int ordinal)
{
    ENTER(cuMipmappedArrayGetMemoryRequirements);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_ordinal_valid(ordinal) ? requirements(ret_needs, mipmap->whole)
                                      : CUDA_ERROR_INVALID_DEVICE;
}

/* The simulator stores rows one after the other. Only the size is that of the real layout. */
devptr array_memory(const void *handle, size_t *ret_pitch, size_t *ret_height)
{
    const struct sim_array *array = handle;

    if (!IS(array, MAGIC_ARRAY) || !array->memory)
        return 0;
    *ret_pitch = array->desc.Width * element_bytes(array->desc.Format) * array->desc.NumChannels;
    *ret_height = array->desc.Height ? array->desc.Height : 1;
    return array->memory;
}

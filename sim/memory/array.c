/* CUDA arrays: how big they are, and what of that is taken from the device. */
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
    struct abi_array3d_desc desc;
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
 * Bytes of one level, before rounding to PAGE: rows of whole 64-byte tiles; a 2D image in blocks of
 * up to 16 tiles of 8 rows, a 3D one in blocks of 8 rows and up to 16 slices. This reproduces the
 * sizes measured on an H200.
 */
static uint64_t level_bytes(const struct abi_array3d_desc *desc, unsigned level)
{
    uint64_t width = desc->width >> level, height = desc->height >> level, depth = desc->depth;
    bool layers = desc->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP);

    if (!layers)
        depth = depth >> level;
    width = round_up((width ? width : 1) * element_bytes(desc->format) * desc->channels, GOB_WIDTH);
    height = height ? height : 1;
    depth = depth ? depth : 1;
    if (!layers && depth > 1) {
        uint64_t slices = power_of_two(depth) < 16 ? power_of_two(depth) : 16;
        return width * round_up(height, GOB_HEIGHT) * round_up(depth, slices);
    }
    uint64_t tiles = power_of_two((height + GOB_HEIGHT - 1) / GOB_HEIGHT);
    return width * round_up(height, GOB_HEIGHT * (tiles < 16 ? tiles : 16)) * depth;
}

static bool desc_valid(const struct abi_array3d_desc *desc)
{
    bool channels = desc->channels == 1 || desc->channels == 2 || desc->channels == 4;

    return desc->width && desc->width <= 268435456 && desc->height <= 131072 &&
           desc->depth <= 32768 && element_bytes(desc->format) && channels &&
           (desc->height || !desc->depth || desc->flags & ARRAY_LAYERED);
}

static int array_new(const struct abi_array3d_desc *desc, uint64_t bytes,
                     struct sim_array **ret_array)
{
    int code = OK;

    NEED_CONTEXT(context);
    TRY(capture_refuse());
    struct sim_array *array = sim_object(sizeof(*array), MAGIC_ARRAY);
    if (!array)
        return ERR_OUT_OF_MEMORY;
    array->context = context;
    array->desc = *desc;
    array->bytes = round_up(bytes, PAGE);
    sim_lock();
    if (!(desc->flags & (ARRAY_SPARSE | ARRAY_DEFERRED)))
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

/* The memory goes with the context's other memory where the context goes. */
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
    for (struct sim_array **link = &array->context->arrays; *link; link = &(*link)->next) {
        if (*link == array) {
            *link = array->next;
            break;
        }
    }
    if (array->memory && !array->part)
        address_free(array->memory, NO_ORDER);
    handle_retire(array);
}

static int create_2d(struct sim_array **ret_array, const struct abi_array_desc *desc)
{
    if (!ret_array || !desc)
        return ERR_INVALID_VALUE;
    struct abi_array3d_desc full = {desc->width, desc->height, 0, desc->format, desc->channels, 0};
    return desc_valid(&full) ? array_new(&full, level_bytes(&full, 0), ret_array)
                             : ERR_INVALID_VALUE;
}

API_AS_KERNEL(cuArrayCreate_v2, create_2d(ret_array, desc), struct sim_array **ret_array,
              const struct abi_array_desc *desc)

API(cuArray3DCreate_v2, struct sim_array **ret_array, const struct abi_array3d_desc *desc)
{
    ENTER_KERNEL(cuArray3DCreate_v2);
    if (!ret_array || !desc || !desc_valid(desc))
        return ERR_INVALID_VALUE;
    return array_new(desc, level_bytes(desc, 0), ret_array);
}

struct old_desc { /* the descriptors of the first ABI: 32-bit sizes */
    unsigned width, height, depth;
    int format;
    unsigned channels, flags;
};

API(cuArrayCreate, struct sim_array **ret_array, const unsigned *desc)
{
    ENTER_KERNEL(cuArrayCreate);
    if (!desc)
        return ERR_INVALID_VALUE;
    struct abi_array_desc wide = {desc[0], desc[1], (int)desc[2], desc[3]};
    return create_2d(ret_array, &wide);
}

API(cuArray3DCreate, struct sim_array **ret_array, const struct old_desc *desc)
{
    ENTER_KERNEL(cuArray3DCreate);
    if (!ret_array || !desc)
        return ERR_INVALID_VALUE;
    struct abi_array3d_desc wide = {desc->width,  desc->height,   desc->depth,
                                    desc->format, desc->channels, desc->flags};
    return desc_valid(&wide) ? array_new(&wide, level_bytes(&wide, 0), ret_array)
                             : ERR_INVALID_VALUE;
}

API(cuArrayDestroy, struct sim_array *array)
{
    ENTER_KERNEL(cuArrayDestroy);
    if (!IS(array, MAGIC_ARRAY) || array->part)
        return ERR_INVALID_HANDLE;
    sim_lock();
    array_free(array);
    sim_unlock();
    return OK;
}

API(cuArrayGetDescriptor_v2, struct abi_array_desc *ret_desc, struct sim_array *array)
{
    ENTER(cuArrayGetDescriptor_v2);
    if (!IS(array, MAGIC_ARRAY))
        return ERR_INVALID_HANDLE;
    if (!ret_desc)
        return ERR_INVALID_VALUE;
    *ret_desc = (struct abi_array_desc){array->desc.width, array->desc.height, array->desc.format,
                                        array->desc.channels};
    return OK;
}

API(cuArray3DGetDescriptor_v2, struct abi_array3d_desc *ret_desc, struct sim_array *array)
{
    ENTER(cuArray3DGetDescriptor_v2);
    if (!IS(array, MAGIC_ARRAY))
        return ERR_INVALID_HANDLE;
    if (!ret_desc)
        return ERR_INVALID_VALUE;
    *ret_desc = array->desc;
    return OK;
}

static int requirements(struct abi_array_requirements *ret_needs, struct sim_array *array)
{
    if (!ret_needs || !(array->desc.flags & ARRAY_DEFERRED))
        return ERR_INVALID_VALUE;
    memset(ret_needs, 0, sizeof(*ret_needs));
    ret_needs->size = array->bytes;
    ret_needs->alignment = PAGE;
    return OK;
}

API(cuArrayGetMemoryRequirements, struct abi_array_requirements *ret_needs, struct sim_array *array,
    int ordinal)
{
    ENTER(cuArrayGetMemoryRequirements);
    if (!IS(array, MAGIC_ARRAY))
        return ERR_INVALID_HANDLE;
    return sim_ordinal_valid(ordinal) ? requirements(ret_needs, array) : ERR_INVALID_DEVICE;
}

static unsigned full_levels(const struct abi_array3d_desc *desc)
{
    size_t most = desc->width > desc->height ? desc->width : desc->height;
    unsigned levels = 1;

    if (!(desc->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)) && desc->depth > most)
        most = desc->depth;
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
    array->desc.width = whole->desc.width >> level ? whole->desc.width >> level : 1;
    if (array->desc.height)
        array->desc.height = whole->desc.height >> level ? whole->desc.height >> level : 1;
    array->bytes = level_bytes(&whole->desc, level);
    array->memory = whole->memory ? whole->memory + offset : 0;
    return array;
}

API(cuMipmappedArrayCreate, struct sim_mipmap **ret_mipmap, const struct abi_array3d_desc *desc,
    unsigned levels)
{
    ENTER_KERNEL(cuMipmappedArrayCreate);
    if (!ret_mipmap || !desc || !desc_valid(desc) || !levels)
        return ERR_INVALID_VALUE;
    struct sim_mipmap *mipmap = sim_object(sizeof(*mipmap), MAGIC_MIPMAP);
    if (!mipmap)
        return ERR_OUT_OF_MEMORY;
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
    return OK;
}

API(cuMipmappedArrayGetLevel, struct sim_array **ret_array, struct sim_mipmap *mipmap,
    unsigned level)
{
    ENTER(cuMipmappedArrayGetLevel);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return ERR_INVALID_HANDLE;
    if (!ret_array || level >= mipmap->count)
        return ERR_INVALID_VALUE;
    *ret_array = mipmap->levels[level];
    return OK;
}

API(cuMipmappedArrayDestroy, struct sim_mipmap *mipmap)
{
    ENTER_KERNEL(cuMipmappedArrayDestroy);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return ERR_INVALID_HANDLE;
    sim_lock();
    for (unsigned level = 0; level < mipmap->count; level++) {
        if (mipmap->levels[level])
            handle_retire(mipmap->levels[level]);
    }
    if (IS(mipmap->whole, MAGIC_ARRAY))
        array_free(mipmap->whole);
    handle_retire(mipmap);
    sim_unlock();
    return OK;
}

API(cuMipmappedArrayGetMemoryRequirements, struct abi_array_requirements *ret_needs,
    struct sim_mipmap *mipmap, int ordinal)
{
    ENTER(cuMipmappedArrayGetMemoryRequirements);
    if (!IS(mipmap, MAGIC_MIPMAP))
        return ERR_INVALID_HANDLE;
    return sim_ordinal_valid(ordinal) ? requirements(ret_needs, mipmap->whole) : ERR_INVALID_DEVICE;
}

/* The simulator keeps rows one behind the other; only the size is that of the real layout. */
devptr array_memory(const void *handle, size_t *ret_pitch, size_t *ret_height)
{
    const struct sim_array *array = handle;

    if (!IS(array, MAGIC_ARRAY) || !array->memory)
        return 0;
    *ret_pitch = array->desc.width * element_bytes(array->desc.format) * array->desc.channels;
    *ret_height = array->desc.height ? array->desc.height : 1;
    return array->memory;
}

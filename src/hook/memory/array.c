/*
 * CUDA arrays and mipmapped arrays. Only the driver knows their size (tiling, padding). vgpu learns
 * it from a twin that it creates without memory and destroys at once. Arrays of up to 1 MiB share
 * blocks with each other and with other small memory of the driver. Reconciliation finds what a new
 * block holds beyond the array, and charges it as untracked.
 */
#include "hook/work/capture.h"
#include "hook/memory/admission.h"
#include "hook/memory/reconcile.h"

#define SHARED_MAX_BYTES (1ULL << 20) /* larger arrays have blocks of their own */
#define ARRAY_UNIT_BYTES (64ULL << 10)
#define NO_MEMORY_FLAGS  (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* Bytes of a 4x4 block of a block-compressed format; 0: another format. */
static uint64_t compressed_block_bytes(unsigned format)
{
    if (format < 0x91 || format > 0x9e)
        return 0;
    /* BC1 and BC4 take 8 bytes: unorm and srgb, unorm and snorm. */
    return format == 0x91 || format == 0x92 || format == 0x97 || format == 0x98 ? 8 : 16;
}

static uint64_t element_bytes(unsigned format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

/* The size if the driver does not tell: the texels, in the driver's units. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level)
{
    bool layered = (desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    uint64_t block = compressed_block_bytes(desc->Format);
    uint64_t width = desc->Width >> level > 0 ? desc->Width >> level : 1;
    uint64_t height = desc->Height >> level > 0 ? desc->Height >> level : 1;
    uint64_t depth = layered ? desc->Depth : desc->Depth >> level;
    uint64_t bytes;

    if (depth == 0)
        depth = 1;
    if (block > 0) {
        width = (width + 3) / 4;
        height = (height + 3) / 4;
    } else {
        block = element_bytes(desc->Format) * (desc->NumChannels > 0 ? desc->NumChannels : 1);
    }
    if (__builtin_mul_overflow(width, height, &bytes) ||
        __builtin_mul_overflow(bytes, depth, &bytes) ||
        __builtin_mul_overflow(bytes, block, &bytes) || bytes > MEM_LIMIT_BYTES)
        return MEM_LIMIT_BYTES;
    return bytes;
}

static uint64_t array_estimate(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    uint64_t bytes = 0;

    for (unsigned level = 0; level < levels && level < 32 && bytes <= MEM_LIMIT_BYTES; level++)
        bytes += level_bytes(desc, level);
    return mem_round(bytes, ARRAY_UNIT_BYTES);
}

static bool ask_array(const CUDA_ARRAY3D_DESCRIPTOR *desc, CUdevice device, uint64_t *ret_bytes)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = {0};
    CUarray twin = NULL;
    CUresult result;

    if (!HAVE(cuArrayGetMemoryRequirements) || !HAVE(cuArray3DCreate_v2) ||
        DRIVER(cuArray3DCreate_v2)(&twin, desc) != CUDA_SUCCESS)
        return false;
    result = DRIVER(cuArrayGetMemoryRequirements)(&requirements, twin, device);
    DRIVER(cuArrayDestroy)(twin);
    *ret_bytes = requirements.size;
    return result == CUDA_SUCCESS && requirements.size > 0;
}

static bool ask_mipmap(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels, CUdevice device,
                       uint64_t *ret_bytes)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = {0};
    CUmipmappedArray twin = NULL;
    CUresult result;

    if (!HAVE(cuMipmappedArrayGetMemoryRequirements) ||
        DRIVER(cuMipmappedArrayCreate)(&twin, desc, levels) != CUDA_SUCCESS)
        return false;
    result = DRIVER(cuMipmappedArrayGetMemoryRequirements)(&requirements, twin, device);
    DRIVER(cuMipmappedArrayDestroy)(twin);
    *ret_bytes = requirements.size;
    return result == CUDA_SUCCESS && requirements.size > 0;
}

/* The bytes that the driver will take for an array (`levels` 0) or a mipmap of so many levels. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels, CUdevice device)
{
    CUDA_ARRAY3D_DESCRIPTOR twin = *desc;
    struct capture_mode mode = capture_enter();
    uint64_t bytes = 0;
    bool known;

    twin.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
    known =
        levels > 0 ? ask_mipmap(&twin, levels, device, &bytes) : ask_array(&twin, device, &bytes);
    capture_leave(&mode);
    if (!known)
        bytes = array_estimate(desc, levels > 0 ? levels : 1);
    return bytes > SHARED_MAX_BYTES ? mem_round(bytes, MEM_BLOCK_BYTES)
                                    : mem_round(bytes, ARRAY_UNIT_BYTES);
}

/* Reserves what an array takes. `levels` 0: it is no mipmap. */
static CUresult array_admit(enum hook_symbol sym, enum mem_class class,
                            const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                            struct admission *ret_admission, uint64_t *ret_bytes)
{
    CUdevice device;
    unsigned vdev;

    *ret_admission = (struct admission){.ledger = NULL};
    *ret_bytes = 0;
    if (hook_ledger() == NULL || (desc->Flags & NO_MEMORY_FLAGS) != 0 ||
        device_current(&device, &vdev) < 0)
        return CUDA_SUCCESS;
    *ret_bytes = array_bytes(desc, levels, device);
    if (*ret_bytes > MEM_LIMIT_BYTES)
        return CUDA_SUCCESS;
    return mem_admit_on(sym, class, vdev, *ret_bytes, ret_admission);
}

/* After the driver's answer. The array may have opened a new block, so the rest of one is charged
 * as untracked. NVML says later how much of that is true: at once if nothing else is under way. */
static CUresult array_settle(const struct admission *admission, CUresult result, uint64_t array,
                             uint64_t bytes)
{
    struct admission own = *admission, rest = *admission;
    uint64_t nvml_bytes;

    if (admission->ledger == NULL)
        return result;
    own.reserved_bytes = bytes;
    rest.reserved_bytes -= bytes;
    result = mem_settle(&own, result, array, bytes);
    if (rest.reserved_bytes == 0)
        return result;
    if (result != CUDA_SUCCESS || reconcile_nvml_usage(rest.vdev, &nvml_bytes) < 0) {
        mem_cancel(&rest);
        return result;
    }
    ledger_commit(rest.ledger, rest.vdev, VGPU_KIND_UNTRACKED, rest.reserved_bytes,
                  rest.reserved_bytes);
    reconcile_now(rest.vdev);
    return result;
}

/* The handler of a call that creates an array of the shape `shape`, a CUDA_ARRAY3D_DESCRIPTOR. */
#define CREATE(handler, class, levels, shape, ...)                                                 \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        struct admission admission;                                                                \
        __typeof__(*array) made = NULL;                                                            \
        CUresult result;                                                                           \
        uint64_t bytes;                                                                            \
                                                                                                   \
        if (array == NULL || desc == NULL)                                                         \
            return FORWARD(sym, handler);                                                          \
        result = array_admit(sym, class, shape, levels, &admission, &bytes);                       \
        if (result == CUDA_SUCCESS)                                                                \
            result = REAL(sym, handler)(&made, __VA_ARGS__);                                       \
        result = array_settle(&admission, result, (uintptr_t)made, bytes);                         \
        if (result == CUDA_SUCCESS)                                                                \
            *array = made;                                                                         \
        trace_memory(sym, bytes, (uintptr_t)made, result);                                         \
        return result;                                                                             \
    }

#define SHAPE(...)                                                                                 \
    (&(CUDA_ARRAY3D_DESCRIPTOR){.Width = desc->Width,                                              \
                                .Height = desc->Height,                                            \
                                .Format = desc->Format,                                            \
                                .NumChannels = desc->NumChannels,                                  \
                                __VA_ARGS__})

CREATE(array_create, MEM_ARRAY, 0, SHAPE(), desc)
CREATE(array_create_v1, MEM_ARRAY, 0, SHAPE(), desc)
CREATE(array3d_create, MEM_ARRAY, 0, desc, desc)
CREATE(array3d_create_v1, MEM_ARRAY, 0, SHAPE(.Depth = desc->Depth, .Flags = desc->Flags), desc)
CREATE(mipmapped_array_create, MEM_MIPMAP, levels, desc, desc, levels)

/* After the driver's answer. The block of a small array may stay with others in it. So the array's
 * bytes are untracked from now on, until NVML says otherwise. */
static void array_destroyed(const struct mem_free *freeing, CUresult result)
{
    uint64_t nvml_bytes;
    bool shared = freeing->known && result == CUDA_SUCCESS &&
                  freeing->entry.bytes <= SHARED_MAX_BYTES &&
                  reconcile_nvml_usage(freeing->entry.vdev, &nvml_bytes) == 0;

    if (shared)
        ledger_settle(hook_ledger(), freeing->entry.vdev, VGPU_KIND_UNTRACKED, 0,
                      (int64_t)freeing->entry.bytes);
    mem_free_end(freeing, result);
    if (shared)
        reconcile_now(freeing->entry.vdev);
}

#define DESTROY(handler, class)                                                                    \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        struct mem_free freeing;                                                                   \
        CUresult result;                                                                           \
                                                                                                   \
        mem_free_begin(class, (uintptr_t)array, &freeing);                                         \
        result = FORWARD(sym, handler);                                                            \
        array_destroyed(&freeing, result);                                                         \
        trace_memory(sym, freeing.entry.bytes, (uintptr_t)array, result);                          \
        return result;                                                                             \
    }

DESTROY(array_destroy, MEM_ARRAY)
DESTROY(mipmapped_array_destroy, MEM_MIPMAP)

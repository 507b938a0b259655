/*
 * CUDA arrays and mipmapped arrays. Their size is the driver's secret (tiling, padding): it is
 * learnt from a twin that is made without memory and destroyed at once. Arrays of up to 1 MiB share
 * blocks with each other and with other small things of the driver: what a new block holds beyond
 * the array is found by reconciliation and charged as untracked.
 */
#include "hook/capture.h"
#include "hook/admission.h"
#include "hook/reconcile.h"

#define SHARED_MAX_BYTES (1ULL << 20) /* larger arrays have blocks of their own */
#define ARRAY_UNIT_BYTES (64ULL << 10)
#define NO_MEMORY_FLAGS  (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* Bytes of a 4x4 block of a block-compressed format; 0: it is none. */
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

/* The size where the driver does not tell: the texels, in the driver's units. */
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
        __builtin_mul_overflow(bytes, block, &bytes) || bytes > CHARGE_LIMIT_BYTES)
        return CHARGE_LIMIT_BYTES;
    return bytes;
}

static uint64_t estimate(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    uint64_t bytes = 0;

    for (unsigned level = 0; level < levels && level < 32 && bytes <= CHARGE_LIMIT_BYTES; level++)
        bytes += level_bytes(desc, level);
    return charge_round(bytes, ARRAY_UNIT_BYTES);
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

/* What the driver will take for an array (`levels` 0) or a mipmap of so many levels. */
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
        bytes = estimate(desc, levels > 0 ? levels : 1);
    return bytes > SHARED_MAX_BYTES ? charge_round(bytes, CHARGE_BLOCK_BYTES)
                                    : charge_round(bytes, ARRAY_UNIT_BYTES);
}

struct request {
    enum hook_symbol sym;
    struct vgpu_ledger *ledger; /* NULL: nothing is charged, the driver alone answers */
    unsigned vdev;
    uint64_t bytes;          /* to charge */
    uint64_t reserved_bytes; /* set aside */
};

/* Sets aside what the array takes. False: over the quota. */
static bool admit(struct request *request, enum hook_symbol sym, const void *ret_array,
                  const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUdevice device;

    request->sym = sym;
    request->ledger = NULL;
    request->bytes = 0;
    if (ledger == NULL || ret_array == NULL || desc == NULL ||
        (desc->Flags & NO_MEMORY_FLAGS) != 0 || device_current(&device, &request->vdev) < 0)
        return true;
    request->bytes = array_bytes(desc, levels, device);
    if (request->bytes == 0 || request->bytes > CHARGE_LIMIT_BYTES)
        return true;
    request->ledger = ledger;
    request->reserved_bytes = charge_round(request->bytes, CHARGE_BLOCK_BYTES);
    return charge_reserve(sym, ledger, request->vdev, request->reserved_bytes);
}

/*
 * The array may have opened a new block. So the rest of one is charged as untracked, until NVML's
 * figure says how much of that is true: at once where nothing else is going on.
 */
static void settle_block(const struct request *request, bool charged)
{
    uint64_t rest = request->reserved_bytes - request->bytes;
    uint64_t nvml_bytes;

    if (!charged || reconcile_nvml_usage(request->vdev, &nvml_bytes) < 0) {
        ledger_cancel(request->ledger, request->vdev, rest);
        return;
    }
    ledger_commit(request->ledger, request->vdev, VGPU_KIND_UNTRACKED, rest, rest);
    reconcile_now(request->vdev);
}

/* After the driver's answer. False: there was no room after all, the array has to be destroyed. */
static bool settle(const struct request *request, const void *array, CUresult result)
{
    bool charged;

    if (request->ledger == NULL)
        return true;
    if (result != CUDA_SUCCESS) {
        ledger_cancel(request->ledger, request->vdev, request->reserved_bytes);
        return true;
    }
    charged = charge_commit(request->sym, request->ledger, CHARGE_ARRAYS, (uintptr_t)array,
                            request->vdev, VGPU_KIND_DATA, request->bytes, request->bytes);
    if (request->reserved_bytes > request->bytes)
        settle_block(request, charged);
    return charged;
}

/* A request that was not admitted. */
static CUresult refused(const struct request *request)
{
    trace_memory(request->sym, request->bytes, 0, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult conclude(const struct request *request, CUarray made, CUresult result,
                         CUarray *ret_array)
{
    if (!settle(request, made, result)) {
        DRIVER(cuArrayDestroy)(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *ret_array = made;
    trace_memory(request->sym, request->bytes, (uintptr_t)made, result);
    return result;
}

CUresult hook_array_create(enum hook_symbol sym, CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    struct request request;
    CUarray made = NULL;
    CUresult result;

    if (array == NULL || desc == NULL)
        return REAL(sym, array_create)(array, desc);
    shape.Width = desc->Width;
    shape.Height = desc->Height;
    shape.Format = desc->Format;
    shape.NumChannels = desc->NumChannels;
    if (!admit(&request, sym, array, &shape, 0))
        return refused(&request);
    result = REAL(sym, array_create)(&made, desc);
    return conclude(&request, made, result, array);
}

CUresult hook_array_create_v1(enum hook_symbol sym, CUarray *array,
                              const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    struct request request;
    CUarray made = NULL;
    CUresult result;

    if (array == NULL || desc == NULL)
        return REAL(sym, array_create_v1)(array, desc);
    shape.Width = desc->Width;
    shape.Height = desc->Height;
    shape.Format = desc->Format;
    shape.NumChannels = desc->NumChannels;
    if (!admit(&request, sym, array, &shape, 0))
        return refused(&request);
    result = REAL(sym, array_create_v1)(&made, desc);
    return conclude(&request, made, result, array);
}

CUresult hook_array3d_create(enum hook_symbol sym, CUarray *array,
                             const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct request request;
    CUarray made = NULL;
    CUresult result;

    if (array == NULL || desc == NULL)
        return REAL(sym, array3d_create)(array, desc);
    if (!admit(&request, sym, array, desc, 0))
        return refused(&request);
    result = REAL(sym, array3d_create)(&made, desc);
    return conclude(&request, made, result, array);
}

CUresult hook_array3d_create_v1(enum hook_symbol sym, CUarray *array,
                                const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    struct request request;
    CUarray made = NULL;
    CUresult result;

    if (array == NULL || desc == NULL)
        return REAL(sym, array3d_create_v1)(array, desc);
    shape.Width = desc->Width;
    shape.Height = desc->Height;
    shape.Depth = desc->Depth;
    shape.Format = desc->Format;
    shape.NumChannels = desc->NumChannels;
    shape.Flags = desc->Flags;
    if (!admit(&request, sym, array, &shape, 0))
        return refused(&request);
    result = REAL(sym, array3d_create_v1)(&made, desc);
    return conclude(&request, made, result, array);
}

CUresult hook_mipmapped_array_create(enum hook_symbol sym, CUmipmappedArray *array,
                                     const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    struct request request;
    CUmipmappedArray made = NULL;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (array == NULL || desc == NULL || levels == 0)
        return REAL(sym, mipmapped_array_create)(array, desc, levels);
    if (admit(&request, sym, array, desc, levels)) {
        result = REAL(sym, mipmapped_array_create)(&made, desc, levels);
        if (!settle(&request, made, result)) {
            DRIVER(cuMipmappedArrayDestroy)(made);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (result == CUDA_SUCCESS)
            *array = made;
    }
    trace_memory(sym, request.bytes, (uintptr_t)made, result);
    return result;
}

/*
 * After the driver's answer. The block of a small array may live on with others in it, so what the
 * array took is untracked from now on, until NVML's figure says otherwise.
 */
static void destroyed(const void *array, const struct vgpu_track_entry *entry, CUresult result)
{
    struct vgpu_ledger *ledger = hook_ledger();
    bool shared = entry->bytes <= SHARED_MAX_BYTES;
    uint64_t nvml_bytes;

    if (result != CUDA_SUCCESS) {
        charge_put_back(CHARGE_ARRAYS, (uintptr_t)array, entry);
        return;
    }
    shared = shared && reconcile_nvml_usage(entry->vdev, &nvml_bytes) == 0;
    if (shared)
        ledger_settle(ledger, entry->vdev, VGPU_KIND_UNTRACKED, 0, (int64_t)entry->bytes);
    charge_give_back(ledger, CHARGE_ARRAYS, (uintptr_t)array, entry);
    if (shared)
        reconcile_now(entry->vdev);
}

CUresult hook_array_destroy(enum hook_symbol sym, CUarray array)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_ARRAYS, (uintptr_t)array, &entry);
    CUresult result = REAL(sym, array_destroy)(array);

    if (known)
        destroyed(array, &entry, result);
    trace_memory(sym, entry.bytes, (uintptr_t)array, result);
    return result;
}

CUresult hook_mipmapped_array_destroy(enum hook_symbol sym, CUmipmappedArray array)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_ARRAYS, (uintptr_t)array, &entry);
    CUresult result = REAL(sym, mipmapped_array_destroy)(array);

    if (known)
        destroyed(array, &entry, result);
    trace_memory(sym, entry.bytes, (uintptr_t)array, result);
    return result;
}

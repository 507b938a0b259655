/*
 * Modules and libraries. How much one takes of the device is known only once it is loaded. So vgpu
 * reserves what the image says that it needs, and charges what NVML shows more afterwards. Code
 * that fits into memory of the context costs nothing. What the driver loads later, at the first
 * launch, is found by reconciliation.
 */
#include "base/cleanup.h"
#include "hook/memory/admission.h"
#include "hook/memory/image.h"
#include "hook/memory/reconcile.h"

/* Reserves a block at least, for needs that an image does not state. */
static CUresult module_admit(enum hook_symbol sym, enum mem_class class, uint64_t need_bytes,
                             struct admission *ret_admission)
{
    CUdevice device;
    unsigned vdev;

    *ret_admission = (struct admission){.ledger = NULL};
    if (device_current(&device, &vdev) < 0)
        return CUDA_SUCCESS;
    return mem_admit_on(sym, class, vdev, need_bytes > 0 ? need_bytes : 1, ret_admission);
}

/* What the loaded image has taken. */
static uint64_t module_measure(const struct admission *admission, uint64_t need_bytes)
{
    KEEP_ERRNO;
    uint64_t bytes;

    if (reconcile_excess(admission->ledger, admission->vdev, admission->reserved_bytes, &bytes) < 0)
        bytes = need_bytes > MEM_BLOCK_BYTES ? admission->reserved_bytes : 0;
    return bytes;
}

/* The handler of a call that loads an image, which needs `need` bytes, into *ret. */
#define LOAD(handler, class, ret, need, ...)                                                       \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        uint64_t need_bytes = (need), bytes = 0;                                                   \
        struct admission admission;                                                                \
        __typeof__(*ret) loaded = NULL;                                                            \
        CUresult result;                                                                           \
                                                                                                   \
        if (ret == NULL)                                                                           \
            return FORWARD(sym, handler);                                                          \
        result = module_admit(sym, class, need_bytes, &admission);                                 \
        if (result == CUDA_SUCCESS)                                                                \
            result = REAL(sym, handler)(&loaded, __VA_ARGS__);                                     \
        if (result == CUDA_SUCCESS && admission.ledger != NULL)                                    \
            bytes = module_measure(&admission, need_bytes);                                        \
        result = mem_settle(&admission, result, (uintptr_t)loaded, bytes);                         \
        if (result == CUDA_SUCCESS)                                                                \
            *ret = loaded;                                                                         \
        return result;                                                                             \
    }

LOAD(module_load, MEM_MODULE, module, image_file_device_bytes(path), path)
LOAD(module_load_data, MEM_MODULE, module, image_device_bytes(image), image)
LOAD(module_load_data_ex, MEM_MODULE, module, image_device_bytes(image), image, num_options,
     options, option_values)
LOAD(library_load_data, MEM_LIBRARY, library, image_device_bytes(code), code, jit_options,
     jit_options_values, num_jit_options, library_options, library_option_values,
     num_library_options)
LOAD(library_load_from_file, MEM_LIBRARY, library, image_file_device_bytes(path), path, jit_options,
     jit_options_values, num_jit_options, library_options, library_option_values,
     num_library_options)

/* Along with a module, the driver frees what it loaded later, which is untracked. */
#define UNLOAD(handler, class, module)                                                             \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        struct mem_free freeing;                                                                   \
        CUresult result;                                                                           \
                                                                                                   \
        reconcile_free_begin();                                                                    \
        mem_free_begin(class, (uintptr_t)module, &freeing);                                        \
        result = FORWARD(sym, handler);                                                            \
        mem_free_end(&freeing, result);                                                            \
        reconcile_free_end();                                                                      \
        return result;                                                                             \
    }

UNLOAD(module_unload, MEM_MODULE, module)
UNLOAD(library_unload, MEM_LIBRARY, library)

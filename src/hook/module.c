/*
 * Modules and libraries. What one takes of the device is known only once it is loaded, so room is
 * made for what its image says that it needs, and charged is by what NVML's figure grew. Code that
 * fits into what the context has taken already costs nothing; what the driver loads later, at the
 * first launch, is seen by reconciliation.
 */
#include "hook/module.h"

#include "base/cleanup.h"
#include "account/track.h"
#include "hook/admission.h"
#include "hook/image.h"
#include "hook/reconcile.h"

#include <errno.h>

static _Atomic(struct vgpu_track *) the_table; /* handle -> charge; extra is the context */

static struct vgpu_track *table(void)
{
    struct vgpu_track *track = atomic_load_explicit(&the_table, memory_order_acquire), *fresh;

    if (track)
        return track;
    fresh = track_new();
    if (!fresh || atomic_compare_exchange_strong(&the_table, &track, fresh))
        return fresh;
    return track; /* another thread was first; ours is left behind, once at most */
}

struct loading {
    enum hook_symbol sym;
    struct vgpu_ledger *ledger; /* NULL: nothing is counted */
    unsigned vdev;
    uint64_t need_bytes;
    uint64_t reserved_bytes;
};

/* False: there is no room, the refusal is recorded. */
static bool begin(enum hook_symbol sym, const void *ret_handle, uint64_t need_bytes,
                  struct loading *ret_loading)
{
    struct loading loading = {.sym = sym, .need_bytes = need_bytes};
    struct vgpu_ledger *ledger = hook_ledger();
    CUdevice device;

    if (ledger && ret_handle && device_current(&device, &loading.vdev) == 0) {
        uint64_t bytes = charge_round(need_bytes, CHARGE_BLOCK_BYTES);

        loading.reserved_bytes = bytes > 0 ? bytes : CHARGE_BLOCK_BYTES;
        if (!charge_reserve(sym, ledger, loading.vdev, loading.reserved_bytes))
            return false;
        loading.ledger = ledger;
    }
    *ret_loading = loading;
    return true;
}

static void remember(const struct loading *loading, void *handle, uint64_t bytes)
{
    struct vgpu_track_entry entry = {
        .bytes = bytes, .vdev = loading->vdev, .kind = VGPU_KIND_MODULE};
    CUcontext context = NULL;

    if (bytes == 0 || !table())
        return;
    DRIVER(cuCtxGetCurrent)(&context);
    entry.extra = (uint64_t)(uintptr_t)context;
    track_put(table(), (uint64_t)(uintptr_t)handle, &entry);
}

/* What the driver said about the load. On CUDA_ERROR_OUT_OF_MEMORY of ours what it loaded has been
 * unloaded. */
static CUresult end(struct loading *loading, CUresult result, void *handle,
                    CUresult (*unload)(void *handle))
{
    KEEP_ERRNO;
    uint64_t bytes;

    if (!loading->ledger)
        return result;
    if (result != CUDA_SUCCESS) {
        ledger_cancel(loading->ledger, loading->vdev, loading->reserved_bytes);
        return result;
    }
    if (reconcile_excess(loading->ledger, loading->vdev, loading->reserved_bytes, &bytes) < 0)
        bytes = loading->need_bytes > CHARGE_BLOCK_BYTES ? loading->reserved_bytes : 0;
    if (ledger_commit(loading->ledger, loading->vdev, VGPU_KIND_MODULE, loading->reserved_bytes,
                      bytes) < 0) {
        unload(handle);
        ledger_cancel(loading->ledger, loading->vdev, loading->reserved_bytes);
        ledger_refuse(loading->ledger, loading->vdev, bytes, hook_symbol_name(loading->sym));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    remember(loading, handle, bytes);
    return CUDA_SUCCESS;
}

static CUresult unload_module(void *handle)
{
    return DRIVER(cuModuleUnload)(handle);
}

static CUresult unload_library(void *handle)
{
    return DRIVER(cuLibraryUnload)(handle);
}

static CUresult unload(void *handle, CUresult (*call)(void *handle))
{
    struct vgpu_track *track = atomic_load_explicit(&the_table, memory_order_acquire);
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t key = (uint64_t)(uintptr_t)handle;
    struct vgpu_track_entry entry;
    bool known = track && ledger && track_take(track, key, &entry);
    CUresult result;

    reconcile_free_begin();
    result = call(handle);
    if (known && result == CUDA_SUCCESS)
        ledger_release(ledger, entry.vdev, VGPU_KIND_MODULE, entry.bytes);
    else if (known)
        track_put(track, key, &entry);
    reconcile_free_end();
    return result;
}

static bool sweep_context(uint64_t key, struct vgpu_track_entry *entry, void *context)
{
    (void)key;
    if (entry->extra != (uint64_t)(uintptr_t)context)
        return false;
    ledger_release(hook_ledger(), entry->vdev, VGPU_KIND_MODULE, entry->bytes);
    return true;
}

void module_context_gone(CUcontext context)
{
    struct vgpu_track *track = atomic_load_explicit(&the_table, memory_order_acquire);

    if (track && context && hook_ledger())
        track_sweep(track, 0, UINT64_MAX, sweep_context, context);
}

static CUresult end_module(struct loading *loading, CUresult result, CUmodule loaded,
                           CUmodule *ret_module)
{
    result = end(loading, result, loaded, unload_module);
    if (result == CUDA_SUCCESS)
        *ret_module = loaded;
    return result;
}

CUresult hook_module_load(enum hook_symbol sym, CUmodule *module, const char *path)
{
    struct loading loading;
    CUmodule loaded = NULL;
    CUresult result;

    if (!begin(sym, module, image_file_device_bytes(path), &loading))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!loading.ledger)
        return REAL(sym, module_load)(module, path);
    result = REAL(sym, module_load)(&loaded, path);
    return end_module(&loading, result, loaded, module);
}

CUresult hook_module_load_data(enum hook_symbol sym, CUmodule *module, const void *image)
{
    struct loading loading;
    CUmodule loaded = NULL;
    CUresult result;

    if (!begin(sym, module, image_device_bytes(image), &loading))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!loading.ledger)
        return REAL(sym, module_load_data)(module, image);
    result = REAL(sym, module_load_data)(&loaded, image);
    return end_module(&loading, result, loaded, module);
}

CUresult hook_module_load_data_ex(enum hook_symbol sym, CUmodule *module, const void *image,
                                  unsigned int num_options, CUjit_option *options,
                                  void **option_values)
{
    struct loading loading;
    CUmodule loaded = NULL;
    CUresult result;

    if (!begin(sym, module, image_device_bytes(image), &loading))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!loading.ledger)
        return REAL(sym, module_load_data_ex)(module, image, num_options, options, option_values);
    result = REAL(sym, module_load_data_ex)(&loaded, image, num_options, options, option_values);
    return end_module(&loading, result, loaded, module);
}

CUresult hook_module_unload(enum hook_symbol sym, CUmodule module)
{
    (void)sym;
    return unload(module, unload_module);
}

CUresult hook_library_load_data(enum hook_symbol sym, CUlibrary *library, const void *code,
                                CUjit_option *jit_options, void **jit_options_values,
                                unsigned int num_jit_options, CUlibraryOption *library_options,
                                void **library_option_values, unsigned int num_library_options)
{
    struct loading loading;
    CUlibrary loaded = NULL;
    CUresult result;

    if (!begin(sym, library, image_device_bytes(code), &loading))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(sym, library_load_data)(loading.ledger ? &loaded : library, code, jit_options,
                                          jit_options_values, num_jit_options, library_options,
                                          library_option_values, num_library_options);
    if (!loading.ledger)
        return result;
    result = end(&loading, result, loaded, unload_library);
    if (result == CUDA_SUCCESS)
        *library = loaded;
    return result;
}

CUresult hook_library_load_from_file(enum hook_symbol sym, CUlibrary *library, const char *path,
                                     CUjit_option *jit_options, void **jit_options_values,
                                     unsigned int num_jit_options, CUlibraryOption *library_options,
                                     void **library_option_values, unsigned int num_library_options)
{
    struct loading loading;
    CUlibrary loaded = NULL;
    CUresult result;

    if (!begin(sym, library, image_file_device_bytes(path), &loading))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(sym, library_load_from_file)(
        loading.ledger ? &loaded : library, path, jit_options, jit_options_values, num_jit_options,
        library_options, library_option_values, num_library_options);
    if (!loading.ledger)
        return result;
    result = end(&loading, result, loaded, unload_library);
    if (result == CUDA_SUCCESS)
        *library = loaded;
    return result;
}

CUresult hook_library_unload(enum hook_symbol sym, CUlibrary library)
{
    (void)sym;
    return unload(library, unload_library);
}

/*
 * What handlers use: the tables' rows, the driver's own functions, the state of this process.
 *
 * Any thread can call every function here. All of them keep errno.
 */
#ifndef VGPU_HOOK_LOADER_HOOK_H
#define VGPU_HOOK_LOADER_HOOK_H

#include "base/cleanup.h"
#include "account/ledger.h"
#include "hook/loader/handlers.h"
#include "abi/cuda.h"
#include "hook/loader/symbol_ids.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The symbol of a row, as spec/driver.def has it. */
const char *hook_symbol_name(enum hook_symbol sym);

/*
 * The driver's function of each row, or NULL if this driver lacks it. symbols_resolve() fills the
 * table before the first handler runs, and nothing changes it afterwards. nvml_real in
 * nvml_handlers.h is the same for NVML.
 */
extern void *hook_real[SYMBOL_COUNT];

/* Stands in for functions that the driver lacks. The calling conventions let it ignore all
 * arguments. */
static inline CUresult hook_absent(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static inline void *hook_real_or_absent(enum hook_symbol sym)
{
    void *real = hook_real[sym];

    return __builtin_expect(real != NULL, 1) ? real : (void *)hook_absent;
}

/*
 * REAL(sym, mem_alloc)(dptr, bytes) calls the driver's function behind a handler's own symbol. It
 * is there: the wrapper of a function that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED and
 * never calls its handler. FORWARD(sym, mem_alloc) does so with the handler's arguments, which then
 * have the names that the row gives them.
 *
 * DRIVER(cuCtxGetDevice)(&device) calls a function by its name, for a HOOK or a CALL row. Where
 * this driver lacks it, the call answers CUDA_ERROR_NOT_SUPPORTED; HAVE(cuCtxGetDevice) tells
 * before the call.
 */
#define REAL(sym, handler)    ((handler##_fn *)hook_real[sym])
#define FORWARD(sym, handler) REAL(sym, handler) ARGUMENTS(PARAMS(handler))
#define DRIVER(sym)           ((sym##_fn *)hook_real_or_absent(SYMBOL_##sym))
#define HAVE(sym)             (hook_real[SYMBOL_##sym] != NULL)

/* The head of a handler, whose parameters have the names of its row. HANDLER_PART is the head of a
 * function that the handler calls with ARGUMENTS_WITH(sym, PARAMS(handler)). */
#define HANDLER(handler) HANDLER_PART(handler, )
#define HANDLER_PART(handler, suffix)                                                              \
    CUresult hook_##handler##suffix SIGNATURE_WITH(enum hook_symbol sym, PARAMS(handler))

/* The ledger and the region of this process. NULL: memory is neither limited nor counted (no
 * instance, only tracing), or the instance could not be attached. Once there they stay. */
struct vgpu_ledger *hook_ledger(void);
struct vgpu_region *hook_region(void);

/* Tries again if attaching has failed: the instance may have been made since. 0: it is attached, or
 * the environment names none; else why not, as -errno. */
int hook_attach_again(void);

/* calloc() that leaves errno alone. */
static inline void *hook_zalloc(size_t bytes)
{
    KEEP_ERRNO;

    return calloc(1, bytes);
}

/* Devices (device.c). An ordinal is the driver's own, a vdev the instance's. -ENODEV: unknown. */
int device_vdev(CUdevice device, unsigned *ret_vdev);
int device_current(CUdevice *ret_device, unsigned *ret_vdev); /* of the calling thread's context */
uint64_t device_physical_bytes(CUdevice device);

/* Tracing (trace.c). Costs one predictable branch when off. */
extern atomic_bool trace_enabled;
void trace_memory_slow(enum hook_symbol sym, uint64_t bytes, uint64_t address, CUresult result);
static inline void trace_memory(enum hook_symbol sym, uint64_t bytes, uint64_t address,
                                CUresult result)
{
    if (__builtin_expect(atomic_load_explicit(&trace_enabled, memory_order_relaxed), 0))
        trace_memory_slow(sym, bytes, address, result);
}

/* The same for handlers with a size whose calls are too many to be logged one by one. */
void trace_bytes_slow(enum hook_symbol sym, uint64_t bytes);
static inline void trace_bytes(enum hook_symbol sym, uint64_t bytes)
{
    if (__builtin_expect(atomic_load_explicit(&trace_enabled, memory_order_relaxed), 0))
        trace_bytes_slow(sym, bytes);
}

#endif

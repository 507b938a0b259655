/*
 * The handlers of spec/driver.def: for each its parameters (SIG_), the same as arguments (ARGS_),
 * its function type and its prototype. A handler gets the row first, so that twins share it:
 * REAL(sym, mem_alloc)(dptr, bytes).
 *
 * At the end: driver functions that handlers call and nobody hooks, as DRIVER(cuStreamIsCapturing,
 * stream_is_capturing).
 */
#ifndef VGPU_HOOK_HANDLERS_H
#define VGPU_HOOK_HANDLERS_H

#include "hook/cuda_abi.h"
#include "hook/symbol_ids.h"

/* clang-format off */

/* other */

#define SIG_get_proc_address (const char *symbol, void **ret_address, int version, cuuint64_t flags)
#define ARGS_get_proc_address (symbol, ret_address, version, flags)
typedef CUresult get_proc_address_fn SIG_get_proc_address;
CUresult hook_get_proc_address(enum hook_symbol sym, const char *symbol, void **ret_address, int version,
                               cuuint64_t flags);

#define SIG_get_proc_address_v2                                                                                        \
    (const char *symbol, void **ret_address, int version, cuuint64_t flags,                                            \
     CUdriverProcAddressQueryResult *ret_status)
#define ARGS_get_proc_address_v2 (symbol, ret_address, version, flags, ret_status)
typedef CUresult get_proc_address_v2_fn SIG_get_proc_address_v2;
CUresult hook_get_proc_address_v2(enum hook_symbol sym, const char *symbol, void **ret_address, int version,
                                  cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status);

/* device */

#define SIG_device_get (CUdevice *device, int ordinal)
#define ARGS_device_get (device, ordinal)
typedef CUresult device_get_fn SIG_device_get;
CUresult hook_device_get(enum hook_symbol sym, CUdevice *device, int ordinal);

#define SIG_device_get_attribute (int *value, CUdevice_attribute attribute, CUdevice device)
#define ARGS_device_get_attribute (value, attribute, device)
typedef CUresult device_get_attribute_fn SIG_device_get_attribute;
CUresult hook_device_get_attribute(enum hook_symbol sym, int *value, CUdevice_attribute attribute, CUdevice device);

#define SIG_device_get_by_pci (CUdevice *device, const char *bus_id)
#define ARGS_device_get_by_pci (device, bus_id)
typedef CUresult device_get_by_pci_fn SIG_device_get_by_pci;
CUresult hook_device_get_by_pci(enum hook_symbol sym, CUdevice *device, const char *bus_id);

#define SIG_device_get_count (int *count)
#define ARGS_device_get_count (count)
typedef CUresult device_get_count_fn SIG_device_get_count;
CUresult hook_device_get_count(enum hook_symbol sym, int *count);

#define SIG_primary_ctx_reset (CUdevice device)
#define ARGS_primary_ctx_reset (device)
typedef CUresult primary_ctx_reset_fn SIG_primary_ctx_reset;
CUresult hook_primary_ctx_reset(enum hook_symbol sym, CUdevice device);

#define SIG_device_set_mem_pool (CUdevice device, CUmemoryPool pool)
#define ARGS_device_set_mem_pool (device, pool)
typedef CUresult device_set_mem_pool_fn SIG_device_set_mem_pool;
CUresult hook_device_set_mem_pool(enum hook_symbol sym, CUdevice device, CUmemoryPool pool);

#define SIG_device_total_mem_v1 (unsigned int *bytes, CUdevice device)
#define ARGS_device_total_mem_v1 (bytes, device)
typedef CUresult device_total_mem_v1_fn SIG_device_total_mem_v1;
CUresult hook_device_total_mem_v1(enum hook_symbol sym, unsigned int *bytes, CUdevice device);

#define SIG_device_total_mem (size_t *bytes, CUdevice device)
#define ARGS_device_total_mem (bytes, device)
typedef CUresult device_total_mem_fn SIG_device_total_mem;
CUresult hook_device_total_mem(enum hook_symbol sym, size_t *bytes, CUdevice device);

#define SIG_init (unsigned int flags)
#define ARGS_init (flags)
typedef CUresult init_fn SIG_init;
CUresult hook_init(enum hook_symbol sym, unsigned int flags);

/* context */

#define SIG_ctx_create (CUcontext *ctx, unsigned int flags, CUdevice device)
#define ARGS_ctx_create (ctx, flags, device)
typedef CUresult ctx_create_fn SIG_ctx_create;
CUresult hook_ctx_create(enum hook_symbol sym, CUcontext *ctx, unsigned int flags, CUdevice device);

#define SIG_ctx_create_v3 (CUcontext *ctx, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice device)
#define ARGS_ctx_create_v3 (ctx, params, count, flags, device)
typedef CUresult ctx_create_v3_fn SIG_ctx_create_v3;
CUresult hook_ctx_create_v3(enum hook_symbol sym, CUcontext *ctx, CUexecAffinityParam *params, int count,
                            unsigned int flags, CUdevice device);

#define SIG_ctx_create_v4 (CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice device)
#define ARGS_ctx_create_v4 (ctx, params, flags, device)
typedef CUresult ctx_create_v4_fn SIG_ctx_create_v4;
CUresult hook_ctx_create_v4(enum hook_symbol sym, CUcontext *ctx, CUctxCreateParams *params, unsigned int flags,
                            CUdevice device);

#define SIG_ctx_destroy (CUcontext ctx)
#define ARGS_ctx_destroy (ctx)
typedef CUresult ctx_destroy_fn SIG_ctx_destroy;
CUresult hook_ctx_destroy(enum hook_symbol sym, CUcontext ctx);

#define SIG_ctx_get_device (CUdevice *device)
#define ARGS_ctx_get_device (device)
typedef CUresult ctx_get_device_fn SIG_ctx_get_device;
CUresult hook_ctx_get_device(enum hook_symbol sym, CUdevice *device);

#define SIG_ctx_set_limit (CUlimit limit, size_t value)
#define ARGS_ctx_set_limit (limit, value)
typedef CUresult ctx_set_limit_fn SIG_ctx_set_limit;
CUresult hook_ctx_set_limit(enum hook_symbol sym, CUlimit limit, size_t value);

#define SIG_ctx_synchronize (void)
#define ARGS_ctx_synchronize ()
typedef CUresult ctx_synchronize_fn SIG_ctx_synchronize;
CUresult hook_ctx_synchronize(enum hook_symbol sym);

#define SIG_ctx_synchronize_v2 (CUcontext ctx)
#define ARGS_ctx_synchronize_v2 (ctx)
typedef CUresult ctx_synchronize_v2_fn SIG_ctx_synchronize_v2;
CUresult hook_ctx_synchronize_v2(enum hook_symbol sym, CUcontext ctx);

#define SIG_primary_ctx_release (CUdevice device)
#define ARGS_primary_ctx_release (device)
typedef CUresult primary_ctx_release_fn SIG_primary_ctx_release;
CUresult hook_primary_ctx_release(enum hook_symbol sym, CUdevice device);

#define SIG_primary_ctx_retain (CUcontext *ctx, CUdevice device)
#define ARGS_primary_ctx_retain (ctx, device)
typedef CUresult primary_ctx_retain_fn SIG_primary_ctx_retain;
CUresult hook_primary_ctx_retain(enum hook_symbol sym, CUcontext *ctx, CUdevice device);

/* greencontext */

#define SIG_green_ctx_create (CUgreenCtx *ctx, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
#define ARGS_green_ctx_create (ctx, desc, device, flags)
typedef CUresult green_ctx_create_fn SIG_green_ctx_create;
CUresult hook_green_ctx_create(enum hook_symbol sym, CUgreenCtx *ctx, CUdevResourceDesc desc, CUdevice device,
                               unsigned int flags);

#define SIG_green_ctx_destroy (CUgreenCtx ctx)
#define ARGS_green_ctx_destroy (ctx)
typedef CUresult green_ctx_destroy_fn SIG_green_ctx_destroy;
CUresult hook_green_ctx_destroy(enum hook_symbol sym, CUgreenCtx ctx);

/* stream */

#define SIG_stream_begin_capture_v1 (CUstream stream)
#define ARGS_stream_begin_capture_v1 (stream)
typedef CUresult stream_begin_capture_v1_fn SIG_stream_begin_capture_v1;
CUresult hook_stream_begin_capture_v1(enum hook_symbol sym, CUstream stream);

#define SIG_stream_begin_capture_to_graph                                                                              \
    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,          \
     size_t num_dependencies, CUstreamCaptureMode mode)
#define ARGS_stream_begin_capture_to_graph (stream, graph, dependencies, dependency_data, num_dependencies, mode)
typedef CUresult stream_begin_capture_to_graph_fn SIG_stream_begin_capture_to_graph;
CUresult hook_stream_begin_capture_to_graph(enum hook_symbol sym, CUstream stream, CUgraph graph,
                                            const CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,
                                            size_t num_dependencies, CUstreamCaptureMode mode);

#define SIG_stream_begin_capture (CUstream stream, CUstreamCaptureMode mode)
#define ARGS_stream_begin_capture (stream, mode)
typedef CUresult stream_begin_capture_fn SIG_stream_begin_capture;
CUresult hook_stream_begin_capture(enum hook_symbol sym, CUstream stream, CUstreamCaptureMode mode);

#define SIG_stream_end_capture (CUstream stream, CUgraph *graph)
#define ARGS_stream_end_capture (stream, graph)
typedef CUresult stream_end_capture_fn SIG_stream_end_capture;
CUresult hook_stream_end_capture(enum hook_symbol sym, CUstream stream, CUgraph *graph);

#define SIG_stream_destroy (CUstream stream)
#define ARGS_stream_destroy (stream)
typedef CUresult stream_destroy_fn SIG_stream_destroy;
CUresult hook_stream_destroy(enum hook_symbol sym, CUstream stream);

#define SIG_stream_query (CUstream stream)
#define ARGS_stream_query (stream)
typedef CUresult stream_query_fn SIG_stream_query;
CUresult hook_stream_query(enum hook_symbol sym, CUstream stream);

#define SIG_stream_synchronize (CUstream stream)
#define ARGS_stream_synchronize (stream)
typedef CUresult stream_synchronize_fn SIG_stream_synchronize;
CUresult hook_stream_synchronize(enum hook_symbol sym, CUstream stream);

/* event */

#define SIG_event_query (CUevent event)
#define ARGS_event_query (event)
typedef CUresult event_query_fn SIG_event_query;
CUresult hook_event_query(enum hook_symbol sym, CUevent event);

#define SIG_event_synchronize (CUevent event)
#define ARGS_event_synchronize (event)
typedef CUresult event_synchronize_fn SIG_event_synchronize;
CUresult hook_event_synchronize(enum hook_symbol sym, CUevent event);

/* memory */

#define SIG_array3d_create_v1 (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
#define ARGS_array3d_create_v1 (array, desc)
typedef CUresult array3d_create_v1_fn SIG_array3d_create_v1;
CUresult hook_array3d_create_v1(enum hook_symbol sym, CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc);

#define SIG_array3d_create (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
#define ARGS_array3d_create (array, desc)
typedef CUresult array3d_create_fn SIG_array3d_create;
CUresult hook_array3d_create(enum hook_symbol sym, CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc);

#define SIG_array_create_v1 (CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
#define ARGS_array_create_v1 (array, desc)
typedef CUresult array_create_v1_fn SIG_array_create_v1;
CUresult hook_array_create_v1(enum hook_symbol sym, CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc);

#define SIG_array_create (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
#define ARGS_array_create (array, desc)
typedef CUresult array_create_fn SIG_array_create;
CUresult hook_array_create(enum hook_symbol sym, CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc);

#define SIG_array_destroy (CUarray array)
#define ARGS_array_destroy (array)
typedef CUresult array_destroy_fn SIG_array_destroy;
CUresult hook_array_destroy(enum hook_symbol sym, CUarray array);

#define SIG_mem_alloc_v1 (CUdeviceptr_v1 *dptr, unsigned int bytes)
#define ARGS_mem_alloc_v1 (dptr, bytes)
typedef CUresult mem_alloc_v1_fn SIG_mem_alloc_v1;
CUresult hook_mem_alloc_v1(enum hook_symbol sym, CUdeviceptr_v1 *dptr, unsigned int bytes);

#define SIG_mem_alloc_async (CUdeviceptr *dptr, size_t bytes, CUstream stream)
#define ARGS_mem_alloc_async (dptr, bytes, stream)
typedef CUresult mem_alloc_async_fn SIG_mem_alloc_async;
CUresult hook_mem_alloc_async(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes, CUstream stream);

#define SIG_mem_alloc_host_v1 (void **host, unsigned int bytes)
#define ARGS_mem_alloc_host_v1 (host, bytes)
typedef CUresult mem_alloc_host_v1_fn SIG_mem_alloc_host_v1;
CUresult hook_mem_alloc_host_v1(enum hook_symbol sym, void **host, unsigned int bytes);

#define SIG_mem_alloc_host (void **host, size_t bytes)
#define ARGS_mem_alloc_host (host, bytes)
typedef CUresult mem_alloc_host_fn SIG_mem_alloc_host;
CUresult hook_mem_alloc_host(enum hook_symbol sym, void **host, size_t bytes);

#define SIG_mem_alloc_managed (CUdeviceptr *dptr, size_t bytes, unsigned int flags)
#define ARGS_mem_alloc_managed (dptr, bytes, flags)
typedef CUresult mem_alloc_managed_fn SIG_mem_alloc_managed;
CUresult hook_mem_alloc_managed(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes, unsigned int flags);

#define SIG_mem_alloc_pitch_v1                                                                                         \
    (CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element_bytes)
#define ARGS_mem_alloc_pitch_v1 (dptr, pitch, width, height, element_bytes)
typedef CUresult mem_alloc_pitch_v1_fn SIG_mem_alloc_pitch_v1;
CUresult hook_mem_alloc_pitch_v1(enum hook_symbol sym, CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width,
                                 unsigned int height, unsigned int element_bytes);

#define SIG_mem_alloc_pitch (CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element_bytes)
#define ARGS_mem_alloc_pitch (dptr, pitch, width, height, element_bytes)
typedef CUresult mem_alloc_pitch_fn SIG_mem_alloc_pitch;
CUresult hook_mem_alloc_pitch(enum hook_symbol sym, CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                              unsigned int element_bytes);

#define SIG_mem_alloc (CUdeviceptr *dptr, size_t bytes)
#define ARGS_mem_alloc (dptr, bytes)
typedef CUresult mem_alloc_fn SIG_mem_alloc;
CUresult hook_mem_alloc(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes);

#define SIG_mem_free_v1 (CUdeviceptr_v1 dptr)
#define ARGS_mem_free_v1 (dptr)
typedef CUresult mem_free_v1_fn SIG_mem_free_v1;
CUresult hook_mem_free_v1(enum hook_symbol sym, CUdeviceptr_v1 dptr);

#define SIG_mem_free_async (CUdeviceptr dptr, CUstream stream)
#define ARGS_mem_free_async (dptr, stream)
typedef CUresult mem_free_async_fn SIG_mem_free_async;
CUresult hook_mem_free_async(enum hook_symbol sym, CUdeviceptr dptr, CUstream stream);

#define SIG_mem_free_host (void *host)
#define ARGS_mem_free_host (host)
typedef CUresult mem_free_host_fn SIG_mem_free_host;
CUresult hook_mem_free_host(enum hook_symbol sym, void *host);

#define SIG_mem_free (CUdeviceptr dptr)
#define ARGS_mem_free (dptr)
typedef CUresult mem_free_fn SIG_mem_free;
CUresult hook_mem_free(enum hook_symbol sym, CUdeviceptr dptr);

#define SIG_mem_get_info_v1 (unsigned int *free, unsigned int *total)
#define ARGS_mem_get_info_v1 (free, total)
typedef CUresult mem_get_info_v1_fn SIG_mem_get_info_v1;
CUresult hook_mem_get_info_v1(enum hook_symbol sym, unsigned int *free, unsigned int *total);

#define SIG_mem_get_info (size_t *free, size_t *total)
#define ARGS_mem_get_info (free, total)
typedef CUresult mem_get_info_fn SIG_mem_get_info;
CUresult hook_mem_get_info(enum hook_symbol sym, size_t *free, size_t *total);

#define SIG_mem_host_alloc (void **host, size_t bytes, unsigned int flags)
#define ARGS_mem_host_alloc (host, bytes, flags)
typedef CUresult mem_host_alloc_fn SIG_mem_host_alloc;
CUresult hook_mem_host_alloc(enum hook_symbol sym, void **host, size_t bytes, unsigned int flags);

#define SIG_mem_host_register (void *host, size_t bytes, unsigned int flags)
#define ARGS_mem_host_register (host, bytes, flags)
typedef CUresult mem_host_register_fn SIG_mem_host_register;
CUresult hook_mem_host_register(enum hook_symbol sym, void *host, size_t bytes, unsigned int flags);

#define SIG_mem_host_unregister (void *host)
#define ARGS_mem_host_unregister (host)
typedef CUresult mem_host_unregister_fn SIG_mem_host_unregister;
CUresult hook_mem_host_unregister(enum hook_symbol sym, void *host);

#define SIG_mipmapped_array_create (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
#define ARGS_mipmapped_array_create (array, desc, levels)
typedef CUresult mipmapped_array_create_fn SIG_mipmapped_array_create;
CUresult hook_mipmapped_array_create(enum hook_symbol sym, CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                                     unsigned int levels);

#define SIG_mipmapped_array_destroy (CUmipmappedArray array)
#define ARGS_mipmapped_array_destroy (array)
typedef CUresult mipmapped_array_destroy_fn SIG_mipmapped_array_destroy;
CUresult hook_mipmapped_array_destroy(enum hook_symbol sym, CUmipmappedArray array);

/* pool */

#define SIG_mem_alloc_from_pool_async (CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
#define ARGS_mem_alloc_from_pool_async (dptr, bytes, pool, stream)
typedef CUresult mem_alloc_from_pool_async_fn SIG_mem_alloc_from_pool_async;
CUresult hook_mem_alloc_from_pool_async(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
                                        CUstream stream);

#define SIG_mem_pool_create (CUmemoryPool *pool, const CUmemPoolProps *props)
#define ARGS_mem_pool_create (pool, props)
typedef CUresult mem_pool_create_fn SIG_mem_pool_create;
CUresult hook_mem_pool_create(enum hook_symbol sym, CUmemoryPool *pool, const CUmemPoolProps *props);

#define SIG_mem_pool_destroy (CUmemoryPool pool)
#define ARGS_mem_pool_destroy (pool)
typedef CUresult mem_pool_destroy_fn SIG_mem_pool_destroy;
CUresult hook_mem_pool_destroy(enum hook_symbol sym, CUmemoryPool pool);

#define SIG_mem_pool_import                                                                                            \
    (CUmemoryPool *pool, void *handle, CUmemAllocationHandleType handle_type, unsigned long long flags)
#define ARGS_mem_pool_import (pool, handle, handle_type, flags)
typedef CUresult mem_pool_import_fn SIG_mem_pool_import;
CUresult hook_mem_pool_import(enum hook_symbol sym, CUmemoryPool *pool, void *handle,
                              CUmemAllocationHandleType handle_type, unsigned long long flags);

#define SIG_mem_pool_set_attribute (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
#define ARGS_mem_pool_set_attribute (pool, attribute, value)
typedef CUresult mem_pool_set_attribute_fn SIG_mem_pool_set_attribute;
CUresult hook_mem_pool_set_attribute(enum hook_symbol sym, CUmemoryPool pool, CUmemPool_attribute attribute, void *value);

#define SIG_mem_pool_trim_to (CUmemoryPool pool, size_t keep_bytes)
#define ARGS_mem_pool_trim_to (pool, keep_bytes)
typedef CUresult mem_pool_trim_to_fn SIG_mem_pool_trim_to;
CUresult hook_mem_pool_trim_to(enum hook_symbol sym, CUmemoryPool pool, size_t keep_bytes);

#define SIG_mem_set_mem_pool (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
#define ARGS_mem_set_mem_pool (location, type, pool)
typedef CUresult mem_set_mem_pool_fn SIG_mem_set_mem_pool;
CUresult hook_mem_set_mem_pool(enum hook_symbol sym, CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);

/* vmm */

#define SIG_mem_create                                                                                                 \
    (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
#define ARGS_mem_create (handle, bytes, prop, flags)
typedef CUresult mem_create_fn SIG_mem_create;
CUresult hook_mem_create(enum hook_symbol sym, CUmemGenericAllocationHandle *handle, size_t bytes,
                         const CUmemAllocationProp *prop, unsigned long long flags);

#define SIG_mem_export_handle                                                                                          \
    (void *os_handle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handle_type,                      \
     unsigned long long flags)
#define ARGS_mem_export_handle (os_handle, handle, handle_type, flags)
typedef CUresult mem_export_handle_fn SIG_mem_export_handle;
CUresult hook_mem_export_handle(enum hook_symbol sym, void *os_handle, CUmemGenericAllocationHandle handle,
                                CUmemAllocationHandleType handle_type, unsigned long long flags);

#define SIG_mem_import_handle                                                                                          \
    (CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType handle_type)
#define ARGS_mem_import_handle (handle, os_handle, handle_type)
typedef CUresult mem_import_handle_fn SIG_mem_import_handle;
CUresult hook_mem_import_handle(enum hook_symbol sym, CUmemGenericAllocationHandle *handle, void *os_handle,
                                CUmemAllocationHandleType handle_type);

#define SIG_mem_map                                                                                                    \
    (CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
#define ARGS_mem_map (ptr, bytes, offset, handle, flags)
typedef CUresult mem_map_fn SIG_mem_map;
CUresult hook_mem_map(enum hook_symbol sym, CUdeviceptr ptr, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags);

#define SIG_mem_release (CUmemGenericAllocationHandle handle)
#define ARGS_mem_release (handle)
typedef CUresult mem_release_fn SIG_mem_release;
CUresult hook_mem_release(enum hook_symbol sym, CUmemGenericAllocationHandle handle);

#define SIG_mem_retain_handle (CUmemGenericAllocationHandle *handle, void *addr)
#define ARGS_mem_retain_handle (handle, addr)
typedef CUresult mem_retain_handle_fn SIG_mem_retain_handle;
CUresult hook_mem_retain_handle(enum hook_symbol sym, CUmemGenericAllocationHandle *handle, void *addr);

#define SIG_mem_unmap (CUdeviceptr ptr, size_t bytes)
#define ARGS_mem_unmap (ptr, bytes)
typedef CUresult mem_unmap_fn SIG_mem_unmap;
CUresult hook_mem_unmap(enum hook_symbol sym, CUdeviceptr ptr, size_t bytes);

/* pointer */

#define SIG_pointer_get_attributes (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
#define ARGS_pointer_get_attributes (count, attributes, data, ptr)
typedef CUresult pointer_get_attributes_fn SIG_pointer_get_attributes;
CUresult hook_pointer_get_attributes(enum hook_symbol sym, unsigned int count, CUpointer_attribute *attributes,
                                     void **data, CUdeviceptr ptr);

/* external */

#define SIG_destroy_external_memory (CUexternalMemory memory)
#define ARGS_destroy_external_memory (memory)
typedef CUresult destroy_external_memory_fn SIG_destroy_external_memory;
CUresult hook_destroy_external_memory(enum hook_symbol sym, CUexternalMemory memory);

#define SIG_import_external_memory (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
#define ARGS_import_external_memory (memory, desc)
typedef CUresult import_external_memory_fn SIG_import_external_memory;
CUresult hook_import_external_memory(enum hook_symbol sym, CUexternalMemory *memory,
                                     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc);

/* checkpoint */

#define SIG_checkpoint_checkpoint  (int pid, CUcheckpointCheckpointArgs *args)
#define ARGS_checkpoint_checkpoint (pid, args)
typedef CUresult checkpoint_checkpoint_fn SIG_checkpoint_checkpoint;
CUresult hook_checkpoint_checkpoint(enum hook_symbol sym, int pid, CUcheckpointCheckpointArgs *args);

#define SIG_checkpoint_restore  (int pid, CUcheckpointRestoreArgs *args)
#define ARGS_checkpoint_restore (pid, args)
typedef CUresult checkpoint_restore_fn SIG_checkpoint_restore;
CUresult hook_checkpoint_restore(enum hook_symbol sym, int pid, CUcheckpointRestoreArgs *args);

/* multicast */

#define SIG_ipc_get_mem_handle  (CUipcMemHandle * handle, CUdeviceptr ptr)
#define ARGS_ipc_get_mem_handle (handle, ptr)
typedef CUresult ipc_get_mem_handle_fn SIG_ipc_get_mem_handle;
CUresult hook_ipc_get_mem_handle(enum hook_symbol sym, CUipcMemHandle *handle, CUdeviceptr ptr);

#define SIG_ipc_open_mem_handle  (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned int flags)
#define ARGS_ipc_open_mem_handle (ptr, handle, flags)
typedef CUresult ipc_open_mem_handle_fn SIG_ipc_open_mem_handle;
CUresult hook_ipc_open_mem_handle(enum hook_symbol sym, CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);

#define SIG_ipc_close_mem_handle  (CUdeviceptr ptr)
#define ARGS_ipc_close_mem_handle (ptr)
typedef CUresult ipc_close_mem_handle_fn SIG_ipc_close_mem_handle;
CUresult hook_ipc_close_mem_handle(enum hook_symbol sym, CUdeviceptr ptr);

#define SIG_multicast_create (CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
#define ARGS_multicast_create (handle, prop)
typedef CUresult multicast_create_fn SIG_multicast_create;
CUresult hook_multicast_create(enum hook_symbol sym, CUmemGenericAllocationHandle *handle,
                               const CUmulticastObjectProp *prop);

/* module */

#define SIG_library_load_data                                                                                          \
    (CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_options_values,                       \
     unsigned int num_jit_options, CUlibraryOption *library_options, void **library_option_values,                     \
     unsigned int num_library_options)
#define ARGS_library_load_data                                                                                         \
    (library, code, jit_options, jit_options_values, num_jit_options, library_options, library_option_values,          \
     num_library_options)
typedef CUresult library_load_data_fn SIG_library_load_data;
CUresult hook_library_load_data(enum hook_symbol sym, CUlibrary *library, const void *code, CUjit_option *jit_options,
                                void **jit_options_values, unsigned int num_jit_options,
                                CUlibraryOption *library_options, void **library_option_values,
                                unsigned int num_library_options);

#define SIG_library_load_from_file                                                                                     \
    (CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_options_values,                       \
     unsigned int num_jit_options, CUlibraryOption *library_options, void **library_option_values,                     \
     unsigned int num_library_options)
#define ARGS_library_load_from_file                                                                                    \
    (library, path, jit_options, jit_options_values, num_jit_options, library_options, library_option_values,          \
     num_library_options)
typedef CUresult library_load_from_file_fn SIG_library_load_from_file;
CUresult hook_library_load_from_file(enum hook_symbol sym, CUlibrary *library, const char *path, CUjit_option *jit_options,
                                     void **jit_options_values, unsigned int num_jit_options,
                                     CUlibraryOption *library_options, void **library_option_values,
                                     unsigned int num_library_options);

#define SIG_library_unload (CUlibrary library)
#define ARGS_library_unload (library)
typedef CUresult library_unload_fn SIG_library_unload;
CUresult hook_library_unload(enum hook_symbol sym, CUlibrary library);

#define SIG_module_load (CUmodule *module, const char *path)
#define ARGS_module_load (module, path)
typedef CUresult module_load_fn SIG_module_load;
CUresult hook_module_load(enum hook_symbol sym, CUmodule *module, const char *path);

#define SIG_module_load_data (CUmodule *module, const void *image)
#define ARGS_module_load_data (module, image)
typedef CUresult module_load_data_fn SIG_module_load_data;
CUresult hook_module_load_data(enum hook_symbol sym, CUmodule *module, const void *image);

#define SIG_module_load_data_ex                                                                                        \
    (CUmodule *module, const void *image, unsigned int num_options, CUjit_option *options, void **option_values)
#define ARGS_module_load_data_ex (module, image, num_options, options, option_values)
typedef CUresult module_load_data_ex_fn SIG_module_load_data_ex;
CUresult hook_module_load_data_ex(enum hook_symbol sym, CUmodule *module, const void *image, unsigned int num_options,
                                  CUjit_option *options, void **option_values);

#define SIG_module_unload (CUmodule module)
#define ARGS_module_unload (module)
typedef CUresult module_unload_fn SIG_module_unload;
CUresult hook_module_unload(enum hook_symbol sym, CUmodule module);

/* launch */

#define SIG_launch_cooperative                                                                                         \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,         \
     unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params)
#define ARGS_launch_cooperative                                                                                        \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params)
typedef CUresult launch_cooperative_fn SIG_launch_cooperative;
CUresult hook_launch_cooperative(enum hook_symbol sym, CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                 unsigned int shared_bytes, CUstream stream, void **params);

#define SIG_launch_kernel                                                                                              \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,         \
     unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params,            \
     void **extra)
#define ARGS_launch_kernel                                                                                             \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra)
typedef CUresult launch_kernel_fn SIG_launch_kernel;
CUresult hook_launch_kernel(enum hook_symbol sym, CUfunction function, unsigned int grid_x, unsigned int grid_y,
                            unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
                            unsigned int shared_bytes, CUstream stream, void **params, void **extra);

#define SIG_launch_kernel_ex (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
#define ARGS_launch_kernel_ex (config, function, params, extra)
typedef CUresult launch_kernel_ex_fn SIG_launch_kernel_ex;
CUresult hook_launch_kernel_ex(enum hook_symbol sym, const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra);

#define SIG_launch_block (CUfunction function)
#define ARGS_launch_block (function)
typedef CUresult launch_block_fn SIG_launch_block;
CUresult hook_launch_block(enum hook_symbol sym, CUfunction function);

#define SIG_launch_multi_device (CUDA_LAUNCH_PARAMS *launches, unsigned int count, unsigned int flags)
#define ARGS_launch_multi_device (launches, count, flags)
typedef CUresult launch_multi_device_fn SIG_launch_multi_device;
CUresult hook_launch_multi_device(enum hook_symbol sym, CUDA_LAUNCH_PARAMS *launches, unsigned int count,
                                  unsigned int flags);

#define SIG_launch_grid (CUfunction function, int width, int height)
#define ARGS_launch_grid (function, width, height)
typedef CUresult launch_grid_fn SIG_launch_grid;
CUresult hook_launch_grid(enum hook_symbol sym, CUfunction function, int width, int height);

#define SIG_launch_grid_async (CUfunction function, int width, int height, CUstream stream)
#define ARGS_launch_grid_async (function, width, height, stream)
typedef CUresult launch_grid_async_fn SIG_launch_grid_async;
CUresult hook_launch_grid_async(enum hook_symbol sym, CUfunction function, int width, int height, CUstream stream);

/* graph */

#define SIG_graph_mem_trim (CUdevice device)
#define ARGS_graph_mem_trim (device)
typedef CUresult graph_mem_trim_fn SIG_graph_mem_trim;
CUresult hook_graph_mem_trim(enum hook_symbol sym, CUdevice device);

#define SIG_graph_add_mem_alloc_node                                                                                   \
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t num_dependencies,                       \
     CUDA_MEM_ALLOC_NODE_PARAMS *params)
#define ARGS_graph_add_mem_alloc_node (node, graph, dependencies, num_dependencies, params)
typedef CUresult graph_add_mem_alloc_node_fn SIG_graph_add_mem_alloc_node;
CUresult hook_graph_add_mem_alloc_node(enum hook_symbol sym, CUgraphNode *node, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t num_dependencies,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *params);

#define SIG_graph_add_node                                                                                             \
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t num_dependencies,                       \
     CUgraphNodeParams *params)
#define ARGS_graph_add_node (node, graph, dependencies, num_dependencies, params)
typedef CUresult graph_add_node_fn SIG_graph_add_node;
CUresult hook_graph_add_node(enum hook_symbol sym, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                             size_t num_dependencies, CUgraphNodeParams *params);

#define SIG_graph_add_node_v2                                                                                          \
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,        \
     size_t num_dependencies, CUgraphNodeParams *params)
#define ARGS_graph_add_node_v2 (node, graph, dependencies, dependency_data, num_dependencies, params)
typedef CUresult graph_add_node_v2_fn SIG_graph_add_node_v2;
CUresult hook_graph_add_node_v2(enum hook_symbol sym, CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                const CUgraphEdgeData *dependency_data, size_t num_dependencies,
                                CUgraphNodeParams *params);

#define SIG_graph_exec_destroy (CUgraphExec exec)
#define ARGS_graph_exec_destroy (exec)
typedef CUresult graph_exec_destroy_fn SIG_graph_exec_destroy;
CUresult hook_graph_exec_destroy(enum hook_symbol sym, CUgraphExec exec);

#define SIG_graph_instantiate                                                                                          \
    (CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log_buffer, size_t buffer_size)
#define ARGS_graph_instantiate (exec, graph, error_node, log_buffer, buffer_size)
typedef CUresult graph_instantiate_fn SIG_graph_instantiate;
CUresult hook_graph_instantiate(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
                                char *log_buffer, size_t buffer_size);

#define SIG_graph_instantiate_with_flags (CUgraphExec *exec, CUgraph graph, unsigned long long flags)
#define ARGS_graph_instantiate_with_flags (exec, graph, flags)
typedef CUresult graph_instantiate_with_flags_fn SIG_graph_instantiate_with_flags;
CUresult hook_graph_instantiate_with_flags(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph,
                                           unsigned long long flags);

#define SIG_graph_instantiate_with_params (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
#define ARGS_graph_instantiate_with_params (exec, graph, params)
typedef CUresult graph_instantiate_with_params_fn SIG_graph_instantiate_with_params;
CUresult hook_graph_instantiate_with_params(enum hook_symbol sym, CUgraphExec *exec, CUgraph graph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *params);

#define SIG_graph_launch (CUgraphExec graph, CUstream stream)
#define ARGS_graph_launch (graph, stream)
typedef CUresult graph_launch_fn SIG_graph_launch;
CUresult hook_graph_launch(enum hook_symbol sym, CUgraphExec graph, CUstream stream);

#define SIG_graph_upload (CUgraphExec graph, CUstream stream)
#define ARGS_graph_upload (graph, stream)
typedef CUresult graph_upload_fn SIG_graph_upload;
CUresult hook_graph_upload(enum hook_symbol sym, CUgraphExec graph, CUstream stream);

#define SIG_graph_exec_batch_mem_op_set_params                                                                         \
    (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
#define ARGS_graph_exec_batch_mem_op_set_params (exec, node, params)
typedef CUresult graph_exec_batch_mem_op_set_params_fn SIG_graph_exec_batch_mem_op_set_params;
CUresult hook_graph_exec_batch_mem_op_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

#define SIG_graph_exec_child_set_params (CUgraphExec exec, CUgraphNode node, CUgraph child)
#define ARGS_graph_exec_child_set_params (exec, node, child)
typedef CUresult graph_exec_child_set_params_fn SIG_graph_exec_child_set_params;
CUresult hook_graph_exec_child_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node, CUgraph child);

#define SIG_graph_exec_kernel_set_params_v1                                                                            \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
#define ARGS_graph_exec_kernel_set_params_v1 (exec, node, params)
typedef CUresult graph_exec_kernel_set_params_v1_fn SIG_graph_exec_kernel_set_params_v1;
CUresult hook_graph_exec_kernel_set_params_v1(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS_v1 *params);

#define SIG_graph_exec_kernel_set_params (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
#define ARGS_graph_exec_kernel_set_params (exec, node, params)
typedef CUresult graph_exec_kernel_set_params_fn SIG_graph_exec_kernel_set_params;
CUresult hook_graph_exec_kernel_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params);

#define SIG_graph_exec_memcpy_set_params (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx)
#define ARGS_graph_exec_memcpy_set_params (exec, node, copy, ctx)
typedef CUresult graph_exec_memcpy_set_params_fn SIG_graph_exec_memcpy_set_params;
CUresult hook_graph_exec_memcpy_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                           const CUDA_MEMCPY3D *copy, CUcontext ctx);

#define SIG_graph_exec_memset_set_params                                                                               \
    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
#define ARGS_graph_exec_memset_set_params (exec, node, params, ctx)
typedef CUresult graph_exec_memset_set_params_fn SIG_graph_exec_memset_set_params;
CUresult hook_graph_exec_memset_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                           const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx);

#define SIG_graph_exec_node_set_params (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
#define ARGS_graph_exec_node_set_params (exec, node, params)
typedef CUresult graph_exec_node_set_params_fn SIG_graph_exec_node_set_params;
CUresult hook_graph_exec_node_set_params(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node,
                                         CUgraphNodeParams *params);

#define SIG_graph_exec_update_v1                                                                                       \
    (CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *update_result)
#define ARGS_graph_exec_update_v1 (exec, graph, error_node, update_result)
typedef CUresult graph_exec_update_v1_fn SIG_graph_exec_update_v1;
CUresult hook_graph_exec_update_v1(enum hook_symbol sym, CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                                   CUgraphExecUpdateResult *update_result);

#define SIG_graph_exec_update (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
#define ARGS_graph_exec_update (exec, graph, info)
typedef CUresult graph_exec_update_fn SIG_graph_exec_update;
CUresult hook_graph_exec_update(enum hook_symbol sym, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);

#define SIG_graph_node_set_enabled (CUgraphExec exec, CUgraphNode node, unsigned int enabled)
#define ARGS_graph_node_set_enabled (exec, node, enabled)
typedef CUresult graph_node_set_enabled_fn SIG_graph_node_set_enabled;
CUresult hook_graph_node_set_enabled(enum hook_symbol sym, CUgraphExec exec, CUgraphNode node, unsigned int enabled);

/* copy */

#define SIG_memcpy_2d_v1 (const CUDA_MEMCPY2D_v1 *copy)
#define ARGS_memcpy_2d_v1 (copy)
typedef CUresult memcpy_2d_v1_fn SIG_memcpy_2d_v1;
CUresult hook_memcpy_2d_v1(enum hook_symbol sym, const CUDA_MEMCPY2D_v1 *copy);

#define SIG_memcpy_2d_async_v1 (const CUDA_MEMCPY2D_v1 *copy, CUstream stream)
#define ARGS_memcpy_2d_async_v1 (copy, stream)
typedef CUresult memcpy_2d_async_v1_fn SIG_memcpy_2d_async_v1;
CUresult hook_memcpy_2d_async_v1(enum hook_symbol sym, const CUDA_MEMCPY2D_v1 *copy, CUstream stream);

#define SIG_memcpy_2d (const CUDA_MEMCPY2D *copy)
#define ARGS_memcpy_2d (copy)
typedef CUresult memcpy_2d_fn SIG_memcpy_2d;
CUresult hook_memcpy_2d(enum hook_symbol sym, const CUDA_MEMCPY2D *copy);

#define SIG_memcpy_2d_async (const CUDA_MEMCPY2D *copy, CUstream stream)
#define ARGS_memcpy_2d_async (copy, stream)
typedef CUresult memcpy_2d_async_fn SIG_memcpy_2d_async;
CUresult hook_memcpy_2d_async(enum hook_symbol sym, const CUDA_MEMCPY2D *copy, CUstream stream);

#define SIG_memcpy_3d_v1 (const CUDA_MEMCPY3D_v1 *copy)
#define ARGS_memcpy_3d_v1 (copy)
typedef CUresult memcpy_3d_v1_fn SIG_memcpy_3d_v1;
CUresult hook_memcpy_3d_v1(enum hook_symbol sym, const CUDA_MEMCPY3D_v1 *copy);

#define SIG_memcpy_3d_async_v1 (const CUDA_MEMCPY3D_v1 *copy, CUstream stream)
#define ARGS_memcpy_3d_async_v1 (copy, stream)
typedef CUresult memcpy_3d_async_v1_fn SIG_memcpy_3d_async_v1;
CUresult hook_memcpy_3d_async_v1(enum hook_symbol sym, const CUDA_MEMCPY3D_v1 *copy, CUstream stream);

#define SIG_memcpy_3d (const CUDA_MEMCPY3D *copy)
#define ARGS_memcpy_3d (copy)
typedef CUresult memcpy_3d_fn SIG_memcpy_3d;
CUresult hook_memcpy_3d(enum hook_symbol sym, const CUDA_MEMCPY3D *copy);

#define SIG_memcpy_3d_async (const CUDA_MEMCPY3D *copy, CUstream stream)
#define ARGS_memcpy_3d_async (copy, stream)
typedef CUresult memcpy_3d_async_fn SIG_memcpy_3d_async;
CUresult hook_memcpy_3d_async(enum hook_symbol sym, const CUDA_MEMCPY3D *copy, CUstream stream);

#define SIG_memcpy_3d_batch_async_v1                                                                                   \
    (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream stream)
#define ARGS_memcpy_3d_batch_async_v1 (count, copies, failed, flags, stream)
typedef CUresult memcpy_3d_batch_async_v1_fn SIG_memcpy_3d_batch_async_v1;
CUresult hook_memcpy_3d_batch_async_v1(enum hook_symbol sym, size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed,
                                       unsigned long long flags, CUstream stream);

#define SIG_memcpy_3d_batch_async                                                                                      \
    (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream)
#define ARGS_memcpy_3d_batch_async (count, copies, flags, stream)
typedef CUresult memcpy_3d_batch_async_fn SIG_memcpy_3d_batch_async;
CUresult hook_memcpy_3d_batch_async(enum hook_symbol sym, size_t count, CUDA_MEMCPY3D_BATCH_OP *copies,
                                    unsigned long long flags, CUstream stream);

#define SIG_memcpy_3d_peer (const CUDA_MEMCPY3D_PEER *copy)
#define ARGS_memcpy_3d_peer (copy)
typedef CUresult memcpy_3d_peer_fn SIG_memcpy_3d_peer;
CUresult hook_memcpy_3d_peer(enum hook_symbol sym, const CUDA_MEMCPY3D_PEER *copy);

#define SIG_memcpy_3d_peer_async (const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
#define ARGS_memcpy_3d_peer_async (copy, stream)
typedef CUresult memcpy_3d_peer_async_fn SIG_memcpy_3d_peer_async;
CUresult hook_memcpy_3d_peer_async(enum hook_symbol sym, const CUDA_MEMCPY3D_PEER *copy, CUstream stream);

#define SIG_memcpy_any (CUdeviceptr dst, CUdeviceptr src, size_t bytes)
#define ARGS_memcpy_any (dst, src, bytes)
typedef CUresult memcpy_any_fn SIG_memcpy_any;
CUresult hook_memcpy_any(enum hook_symbol sym, CUdeviceptr dst, CUdeviceptr src, size_t bytes);

#define SIG_memcpy_any_async (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define ARGS_memcpy_any_async (dst, src, bytes, stream)
typedef CUresult memcpy_any_async_fn SIG_memcpy_any_async;
CUresult hook_memcpy_any_async(enum hook_symbol sym, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);

#define SIG_memcpy_batch_async_v1                                                                                      \
    (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,                \
     size_t *attribute_indices, size_t attribute_count, size_t *failed, CUstream stream)
#define ARGS_memcpy_batch_async_v1                                                                                     \
    (dsts, srcs, sizes, count, attributes, attribute_indices, attribute_count, failed, stream)
typedef CUresult memcpy_batch_async_v1_fn SIG_memcpy_batch_async_v1;
CUresult hook_memcpy_batch_async_v1(enum hook_symbol sym, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                    size_t count, CUmemcpyAttributes *attributes, size_t *attribute_indices,
                                    size_t attribute_count, size_t *failed, CUstream stream);

#define SIG_memcpy_batch_async                                                                                         \
    (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,                \
     size_t *attribute_indices, size_t attribute_count, CUstream stream)
#define ARGS_memcpy_batch_async (dsts, srcs, sizes, count, attributes, attribute_indices, attribute_count, stream)
typedef CUresult memcpy_batch_async_fn SIG_memcpy_batch_async;
CUresult hook_memcpy_batch_async(enum hook_symbol sym, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                 CUmemcpyAttributes *attributes, size_t *attribute_indices, size_t attribute_count,
                                 CUstream stream);

#define SIG_memcpy_peer (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes)
#define ARGS_memcpy_peer (dst, dst_ctx, src, src_ctx, bytes)
typedef CUresult memcpy_peer_fn SIG_memcpy_peer;
CUresult hook_memcpy_peer(enum hook_symbol sym, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                          size_t bytes);

#define SIG_memcpy_peer_async                                                                                          \
    (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes, CUstream stream)
#define ARGS_memcpy_peer_async (dst, dst_ctx, src, src_ctx, bytes, stream)
typedef CUresult memcpy_peer_async_fn SIG_memcpy_peer_async;
CUresult hook_memcpy_peer_async(enum hook_symbol sym, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                                CUcontext src_ctx, size_t bytes, CUstream stream);

#define SIG_memcpy_htod_v1 (CUdeviceptr_v1 dst, const void *src, unsigned int bytes)
#define ARGS_memcpy_htod_v1 (dst, src, bytes)
typedef CUresult memcpy_htod_v1_fn SIG_memcpy_htod_v1;
CUresult hook_memcpy_htod_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, const void *src, unsigned int bytes);

#define SIG_memcpy_htod_async_v1 (CUdeviceptr_v1 dst, const void *src, unsigned int bytes, CUstream stream)
#define ARGS_memcpy_htod_async_v1 (dst, src, bytes, stream)
typedef CUresult memcpy_htod_async_v1_fn SIG_memcpy_htod_async_v1;
CUresult hook_memcpy_htod_async_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, const void *src, unsigned int bytes,
                                   CUstream stream);

#define SIG_memcpy_dtoh_v1 (void *dst, CUdeviceptr_v1 src, unsigned int bytes)
#define ARGS_memcpy_dtoh_v1 (dst, src, bytes)
typedef CUresult memcpy_dtoh_v1_fn SIG_memcpy_dtoh_v1;
CUresult hook_memcpy_dtoh_v1(enum hook_symbol sym, void *dst, CUdeviceptr_v1 src, unsigned int bytes);

#define SIG_memcpy_dtoh_async_v1 (void *dst, CUdeviceptr_v1 src, unsigned int bytes, CUstream stream)
#define ARGS_memcpy_dtoh_async_v1 (dst, src, bytes, stream)
typedef CUresult memcpy_dtoh_async_v1_fn SIG_memcpy_dtoh_async_v1;
CUresult hook_memcpy_dtoh_async_v1(enum hook_symbol sym, void *dst, CUdeviceptr_v1 src, unsigned int bytes,
                                   CUstream stream);

#define SIG_memcpy_dtod_v1 (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes)
#define ARGS_memcpy_dtod_v1 (dst, src, bytes)
typedef CUresult memcpy_dtod_v1_fn SIG_memcpy_dtod_v1;
CUresult hook_memcpy_dtod_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes);

#define SIG_memcpy_dtod_async_v1 (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes, CUstream stream)
#define ARGS_memcpy_dtod_async_v1 (dst, src, bytes, stream)
typedef CUresult memcpy_dtod_async_v1_fn SIG_memcpy_dtod_async_v1;
CUresult hook_memcpy_dtod_async_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes,
                                   CUstream stream);

#define SIG_memcpy_htoa_v1 (CUarray dst, unsigned int offset, const void *src, unsigned int bytes)
#define ARGS_memcpy_htoa_v1 (dst, offset, src, bytes)
typedef CUresult memcpy_htoa_v1_fn SIG_memcpy_htoa_v1;
CUresult hook_memcpy_htoa_v1(enum hook_symbol sym, CUarray dst, unsigned int offset, const void *src, unsigned int bytes);

#define SIG_memcpy_htoa_async_v1                                                                                       \
    (CUarray dst, unsigned int offset, const void *src, unsigned int bytes, CUstream stream)
#define ARGS_memcpy_htoa_async_v1 (dst, offset, src, bytes, stream)
typedef CUresult memcpy_htoa_async_v1_fn SIG_memcpy_htoa_async_v1;
CUresult hook_memcpy_htoa_async_v1(enum hook_symbol sym, CUarray dst, unsigned int offset, const void *src,
                                   unsigned int bytes, CUstream stream);

#define SIG_memcpy_atoh_v1 (void *dst, CUarray src, unsigned int offset, unsigned int bytes)
#define ARGS_memcpy_atoh_v1 (dst, src, offset, bytes)
typedef CUresult memcpy_atoh_v1_fn SIG_memcpy_atoh_v1;
CUresult hook_memcpy_atoh_v1(enum hook_symbol sym, void *dst, CUarray src, unsigned int offset, unsigned int bytes);

#define SIG_memcpy_atoh_async_v1 (void *dst, CUarray src, unsigned int offset, unsigned int bytes, CUstream stream)
#define ARGS_memcpy_atoh_async_v1 (dst, src, offset, bytes, stream)
typedef CUresult memcpy_atoh_async_v1_fn SIG_memcpy_atoh_async_v1;
CUresult hook_memcpy_atoh_async_v1(enum hook_symbol sym, void *dst, CUarray src, unsigned int offset, unsigned int bytes,
                                   CUstream stream);

#define SIG_memcpy_dtoa_v1 (CUarray dst, unsigned int offset, CUdeviceptr_v1 src, unsigned int bytes)
#define ARGS_memcpy_dtoa_v1 (dst, offset, src, bytes)
typedef CUresult memcpy_dtoa_v1_fn SIG_memcpy_dtoa_v1;
CUresult hook_memcpy_dtoa_v1(enum hook_symbol sym, CUarray dst, unsigned int offset, CUdeviceptr_v1 src,
                             unsigned int bytes);

#define SIG_memcpy_atod_v1 (CUdeviceptr_v1 dst, CUarray src, unsigned int offset, unsigned int bytes)
#define ARGS_memcpy_atod_v1 (dst, src, offset, bytes)
typedef CUresult memcpy_atod_v1_fn SIG_memcpy_atod_v1;
CUresult hook_memcpy_atod_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, CUarray src, unsigned int offset,
                             unsigned int bytes);

#define SIG_memcpy_atoa_v1                                                                                             \
    (CUarray dst, unsigned int dst_offset, CUarray src, unsigned int src_offset, unsigned int bytes)
#define ARGS_memcpy_atoa_v1 (dst, dst_offset, src, src_offset, bytes)
typedef CUresult memcpy_atoa_v1_fn SIG_memcpy_atoa_v1;
CUresult hook_memcpy_atoa_v1(enum hook_symbol sym, CUarray dst, unsigned int dst_offset, CUarray src,
                             unsigned int src_offset, unsigned int bytes);

#define SIG_memcpy_htod (CUdeviceptr dst, const void *src, size_t bytes)
#define ARGS_memcpy_htod (dst, src, bytes)
typedef CUresult memcpy_htod_fn SIG_memcpy_htod;
CUresult hook_memcpy_htod(enum hook_symbol sym, CUdeviceptr dst, const void *src, size_t bytes);

#define SIG_memcpy_htod_async (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
#define ARGS_memcpy_htod_async (dst, src, bytes, stream)
typedef CUresult memcpy_htod_async_fn SIG_memcpy_htod_async;
CUresult hook_memcpy_htod_async(enum hook_symbol sym, CUdeviceptr dst, const void *src, size_t bytes, CUstream stream);

#define SIG_memcpy_dtoh (void *dst, CUdeviceptr src, size_t bytes)
#define ARGS_memcpy_dtoh (dst, src, bytes)
typedef CUresult memcpy_dtoh_fn SIG_memcpy_dtoh;
CUresult hook_memcpy_dtoh(enum hook_symbol sym, void *dst, CUdeviceptr src, size_t bytes);

#define SIG_memcpy_dtoh_async (void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define ARGS_memcpy_dtoh_async (dst, src, bytes, stream)
typedef CUresult memcpy_dtoh_async_fn SIG_memcpy_dtoh_async;
CUresult hook_memcpy_dtoh_async(enum hook_symbol sym, void *dst, CUdeviceptr src, size_t bytes, CUstream stream);

#define SIG_memcpy_dtod (CUdeviceptr dst, CUdeviceptr src, size_t bytes)
#define ARGS_memcpy_dtod (dst, src, bytes)
typedef CUresult memcpy_dtod_fn SIG_memcpy_dtod;
CUresult hook_memcpy_dtod(enum hook_symbol sym, CUdeviceptr dst, CUdeviceptr src, size_t bytes);

#define SIG_memcpy_dtod_async (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define ARGS_memcpy_dtod_async (dst, src, bytes, stream)
typedef CUresult memcpy_dtod_async_fn SIG_memcpy_dtod_async;
CUresult hook_memcpy_dtod_async(enum hook_symbol sym, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);

#define SIG_memcpy_htoa (CUarray dst, size_t offset, const void *src, size_t bytes)
#define ARGS_memcpy_htoa (dst, offset, src, bytes)
typedef CUresult memcpy_htoa_fn SIG_memcpy_htoa;
CUresult hook_memcpy_htoa(enum hook_symbol sym, CUarray dst, size_t offset, const void *src, size_t bytes);

#define SIG_memcpy_htoa_async (CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream)
#define ARGS_memcpy_htoa_async (dst, offset, src, bytes, stream)
typedef CUresult memcpy_htoa_async_fn SIG_memcpy_htoa_async;
CUresult hook_memcpy_htoa_async(enum hook_symbol sym, CUarray dst, size_t offset, const void *src, size_t bytes,
                                CUstream stream);

#define SIG_memcpy_atoh (void *dst, CUarray src, size_t offset, size_t bytes)
#define ARGS_memcpy_atoh (dst, src, offset, bytes)
typedef CUresult memcpy_atoh_fn SIG_memcpy_atoh;
CUresult hook_memcpy_atoh(enum hook_symbol sym, void *dst, CUarray src, size_t offset, size_t bytes);

#define SIG_memcpy_atoh_async (void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream)
#define ARGS_memcpy_atoh_async (dst, src, offset, bytes, stream)
typedef CUresult memcpy_atoh_async_fn SIG_memcpy_atoh_async;
CUresult hook_memcpy_atoh_async(enum hook_symbol sym, void *dst, CUarray src, size_t offset, size_t bytes,
                                CUstream stream);

#define SIG_memcpy_dtoa (CUarray dst, size_t offset, CUdeviceptr src, size_t bytes)
#define ARGS_memcpy_dtoa (dst, offset, src, bytes)
typedef CUresult memcpy_dtoa_fn SIG_memcpy_dtoa;
CUresult hook_memcpy_dtoa(enum hook_symbol sym, CUarray dst, size_t offset, CUdeviceptr src, size_t bytes);

#define SIG_memcpy_atod (CUdeviceptr dst, CUarray src, size_t offset, size_t bytes)
#define ARGS_memcpy_atod (dst, src, offset, bytes)
typedef CUresult memcpy_atod_fn SIG_memcpy_atod;
CUresult hook_memcpy_atod(enum hook_symbol sym, CUdeviceptr dst, CUarray src, size_t offset, size_t bytes);

#define SIG_memcpy_atoa (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes)
#define ARGS_memcpy_atoa (dst, dst_offset, src, src_offset, bytes)
typedef CUresult memcpy_atoa_fn SIG_memcpy_atoa;
CUresult hook_memcpy_atoa(enum hook_symbol sym, CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
                          size_t bytes);

/* memset */

#define SIG_memset_d8_v1 (CUdeviceptr_v1 dst, unsigned char value, unsigned int count)
#define ARGS_memset_d8_v1 (dst, value, count)
typedef CUresult memset_d8_v1_fn SIG_memset_d8_v1;
CUresult hook_memset_d8_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned char value, unsigned int count);

#define SIG_memset_d8 (CUdeviceptr dst, unsigned char value, size_t count)
#define ARGS_memset_d8 (dst, value, count)
typedef CUresult memset_d8_fn SIG_memset_d8;
CUresult hook_memset_d8(enum hook_symbol sym, CUdeviceptr dst, unsigned char value, size_t count);

#define SIG_memset_d8_async (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream)
#define ARGS_memset_d8_async (dst, value, count, stream)
typedef CUresult memset_d8_async_fn SIG_memset_d8_async;
CUresult hook_memset_d8_async(enum hook_symbol sym, CUdeviceptr dst, unsigned char value, size_t count, CUstream stream);

#define SIG_memset_d2d8_v1                                                                                             \
    (CUdeviceptr_v1 dst, unsigned int pitch, unsigned char value, unsigned int width, unsigned int height)
#define ARGS_memset_d2d8_v1 (dst, pitch, value, width, height)
typedef CUresult memset_d2d8_v1_fn SIG_memset_d2d8_v1;
CUresult hook_memset_d2d8_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned int pitch, unsigned char value,
                             unsigned int width, unsigned int height);

#define SIG_memset_d2d8 (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height)
#define ARGS_memset_d2d8 (dst, pitch, value, width, height)
typedef CUresult memset_d2d8_fn SIG_memset_d2d8;
CUresult hook_memset_d2d8(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                          size_t height);

#define SIG_memset_d2d8_async                                                                                          \
    (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)
#define ARGS_memset_d2d8_async (dst, pitch, value, width, height, stream)
typedef CUresult memset_d2d8_async_fn SIG_memset_d2d8_async;
CUresult hook_memset_d2d8_async(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream stream);

#define SIG_memset_d16_v1 (CUdeviceptr_v1 dst, unsigned short value, unsigned int count)
#define ARGS_memset_d16_v1 (dst, value, count)
typedef CUresult memset_d16_v1_fn SIG_memset_d16_v1;
CUresult hook_memset_d16_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned short value, unsigned int count);

#define SIG_memset_d16 (CUdeviceptr dst, unsigned short value, size_t count)
#define ARGS_memset_d16 (dst, value, count)
typedef CUresult memset_d16_fn SIG_memset_d16;
CUresult hook_memset_d16(enum hook_symbol sym, CUdeviceptr dst, unsigned short value, size_t count);

#define SIG_memset_d16_async (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream)
#define ARGS_memset_d16_async (dst, value, count, stream)
typedef CUresult memset_d16_async_fn SIG_memset_d16_async;
CUresult hook_memset_d16_async(enum hook_symbol sym, CUdeviceptr dst, unsigned short value, size_t count, CUstream stream);

#define SIG_memset_d2d16_v1                                                                                            \
    (CUdeviceptr_v1 dst, unsigned int pitch, unsigned short value, unsigned int width, unsigned int height)
#define ARGS_memset_d2d16_v1 (dst, pitch, value, width, height)
typedef CUresult memset_d2d16_v1_fn SIG_memset_d2d16_v1;
CUresult hook_memset_d2d16_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned int pitch, unsigned short value,
                              unsigned int width, unsigned int height);

#define SIG_memset_d2d16 (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height)
#define ARGS_memset_d2d16 (dst, pitch, value, width, height)
typedef CUresult memset_d2d16_fn SIG_memset_d2d16;
CUresult hook_memset_d2d16(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                           size_t height);

#define SIG_memset_d2d16_async                                                                                         \
    (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)
#define ARGS_memset_d2d16_async (dst, pitch, value, width, height, stream)
typedef CUresult memset_d2d16_async_fn SIG_memset_d2d16_async;
CUresult hook_memset_d2d16_async(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                                 size_t height, CUstream stream);

#define SIG_memset_d32_v1 (CUdeviceptr_v1 dst, unsigned int value, unsigned int count)
#define ARGS_memset_d32_v1 (dst, value, count)
typedef CUresult memset_d32_v1_fn SIG_memset_d32_v1;
CUresult hook_memset_d32_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned int value, unsigned int count);

#define SIG_memset_d32 (CUdeviceptr dst, unsigned int value, size_t count)
#define ARGS_memset_d32 (dst, value, count)
typedef CUresult memset_d32_fn SIG_memset_d32;
CUresult hook_memset_d32(enum hook_symbol sym, CUdeviceptr dst, unsigned int value, size_t count);

#define SIG_memset_d32_async (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream)
#define ARGS_memset_d32_async (dst, value, count, stream)
typedef CUresult memset_d32_async_fn SIG_memset_d32_async;
CUresult hook_memset_d32_async(enum hook_symbol sym, CUdeviceptr dst, unsigned int value, size_t count, CUstream stream);

#define SIG_memset_d2d32_v1                                                                                            \
    (CUdeviceptr_v1 dst, unsigned int pitch, unsigned int value, unsigned int width, unsigned int height)
#define ARGS_memset_d2d32_v1 (dst, pitch, value, width, height)
typedef CUresult memset_d2d32_v1_fn SIG_memset_d2d32_v1;
CUresult hook_memset_d2d32_v1(enum hook_symbol sym, CUdeviceptr_v1 dst, unsigned int pitch, unsigned int value,
                              unsigned int width, unsigned int height);

#define SIG_memset_d2d32 (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height)
#define ARGS_memset_d2d32 (dst, pitch, value, width, height)
typedef CUresult memset_d2d32_fn SIG_memset_d2d32;
CUresult hook_memset_d2d32(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                           size_t height);

#define SIG_memset_d2d32_async                                                                                         \
    (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)
#define ARGS_memset_d2d32_async (dst, pitch, value, width, height, stream)
typedef CUresult memset_d2d32_async_fn SIG_memset_d2d32_async;
CUresult hook_memset_d2d32_async(enum hook_symbol sym, CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                                 size_t height, CUstream stream);

/* called by handlers, hooked by nobody */

/* cuDriverGetVersion */
typedef CUresult driver_get_version_fn(int *version);
/* cuDeviceGetUuid_v2 */
typedef CUresult device_get_uuid_fn(CUuuid *uuid, CUdevice device);
/* cuDeviceGetPCIBusId */
typedef CUresult device_get_pci_bus_id_fn(char *bus_id, int len, CUdevice device);
/* cuDeviceGetMemPool */
typedef CUresult device_get_mem_pool_fn(CUmemoryPool *pool, CUdevice device);
/* cuDeviceGetDefaultMemPool */
typedef CUresult device_get_default_mem_pool_fn(CUmemoryPool *pool, CUdevice device);
/* cuMemGetMemPool */
typedef CUresult mem_get_mem_pool_fn(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
/* cuMemGetDefaultMemPool */
typedef CUresult mem_get_default_mem_pool_fn(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
/* cuDevicePrimaryCtxGetState */
typedef CUresult primary_ctx_get_state_fn(CUdevice device, unsigned int *flags, int *active);
/* cuCtxGetCurrent */
typedef CUresult ctx_get_current_fn(CUcontext *ctx);
/* cuCtxSetCurrent */
typedef CUresult ctx_set_current_fn(CUcontext ctx);
/* cuCtxPushCurrent_v2 */
typedef CUresult ctx_push_current_fn(CUcontext ctx);
/* cuCtxPopCurrent_v2 */
typedef CUresult ctx_pop_current_fn(CUcontext *ctx);
/* cuCtxGetDevice_v2 */
typedef CUresult ctx_get_device_v2_fn(CUdevice *device, CUcontext ctx);
/* cuCtxGetLimit */
typedef CUresult ctx_get_limit_fn(size_t *value, CUlimit limit);
/* cuCtxGetId */
typedef CUresult ctx_get_id_fn(CUcontext ctx, unsigned long long *ctx_id);
/* cuCtxFromGreenCtx */
typedef CUresult ctx_from_green_ctx_fn(CUcontext *ctx, CUgreenCtx green);
/* cuStreamIsCapturing */
typedef CUresult stream_is_capturing_fn(CUstream stream, CUstreamCaptureStatus *status);
/* cuStreamGetDevice */
typedef CUresult stream_get_device_fn(CUstream stream, CUdevice *device);
/* cuStreamGetCtx */
typedef CUresult stream_get_ctx_fn(CUstream stream, CUcontext *ctx);
/* cuThreadExchangeStreamCaptureMode */
typedef CUresult exchange_capture_mode_fn(CUstreamCaptureMode *mode);
/* cuMemPoolGetAttribute */
typedef CUresult mem_pool_get_attribute_fn(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
/* cuMemGetAllocationPropertiesFromHandle */
typedef CUresult mem_get_properties_fn(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle);
/* cuPointerGetAttribute */
typedef CUresult pointer_get_attribute_fn(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
/* cuArrayGetMemoryRequirements */
typedef CUresult array_get_requirements_fn(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array,
                                           CUdevice device);
/* cuMipmappedArrayGetMemoryRequirements */
typedef CUresult mipmapped_array_get_requirements_fn(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
                                                     CUmipmappedArray array, CUdevice device);
/* cuArrayGetDescriptor_v2 */
typedef CUresult array_get_descriptor_fn(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array);
/* cuArray3DGetDescriptor_v2 */
typedef CUresult array3d_get_descriptor_fn(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array);
/* cuGraphGetNodes */
typedef CUresult graph_get_nodes_fn(CUgraph graph, CUgraphNode *nodes, size_t *count);
/* cuGraphNodeGetType */
typedef CUresult graph_node_get_type_fn(CUgraphNode node, CUgraphNodeType *type);
/* cuGraphMemAllocNodeGetParams */
typedef CUresult graph_mem_alloc_node_get_params_fn(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
/* cuGraphChildGraphNodeGetGraph */
typedef CUresult graph_child_get_graph_fn(CUgraphNode node, CUgraph *graph);
/* cuDeviceGetGraphMemAttribute */
typedef CUresult graph_mem_attribute_fn(CUdevice device, CUgraphMem_attribute attribute, void *value);
/* cuEventCreate */
typedef CUresult event_create_fn(CUevent *event, unsigned int flags);
/* cuEventRecord */
typedef CUresult event_record_fn(CUevent event, CUstream stream);
/* cuEventElapsedTime */
typedef CUresult event_elapsed_time_fn(float *ms, CUevent start, CUevent end);
/* cuStreamGetFlags */
typedef CUresult stream_get_flags_fn(CUstream stream, unsigned int *flags);
/* cuStreamWaitValue32_v2 */
typedef CUresult stream_wait_value32_fn(CUstream stream, CUdeviceptr addr, unsigned int value, unsigned int flags);
/* cuStreamWriteValue32_v2 */
typedef CUresult stream_write_value32_fn(CUstream stream, CUdeviceptr addr, unsigned int value, unsigned int flags);
/* cuMemHostGetDevicePointer_v2 */
typedef CUresult mem_host_get_device_pointer_fn(CUdeviceptr *dptr, void *host, unsigned int flags);
/* cuMemGetAddressRange_v2 */
typedef CUresult mem_get_address_range_fn(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr);

/* clang-format on */

#endif

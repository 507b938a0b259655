/* Compiled only where a toolkit is installed: the simulator's own types against those of cuda.h. */
#include <cuda.h>

#include "sim_abi.h"

#define SAME(own, theirs) _Static_assert(sizeof(struct own) == sizeof(theirs), #own)
#define FIELD(own, field, theirs, their_field)                                                     \
    _Static_assert(offsetof(struct own, field) == offsetof(theirs, their_field), #own "." #field)

SAME(abi_uuid, CUuuid);
SAME(abi_location, CUmemLocation);
SAME(abi_allocation_prop, CUmemAllocationProp);
FIELD(abi_allocation_prop, location, CUmemAllocationProp, location);
SAME(abi_pool_props, CUmemPoolProps);
FIELD(abi_pool_props, max_size, CUmemPoolProps, maxSize);
SAME(abi_access_desc, CUmemAccessDesc);
SAME(abi_pool_pointer, CUmemPoolPtrExportData);
SAME(abi_ipc_handle, CUipcMemHandle);
SAME(abi_array_desc, CUDA_ARRAY_DESCRIPTOR);
FIELD(abi_array_desc, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels);
SAME(abi_array3d_desc, CUDA_ARRAY3D_DESCRIPTOR);
FIELD(abi_array3d_desc, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags);
SAME(abi_array_requirements, CUDA_ARRAY_MEMORY_REQUIREMENTS);
SAME(abi_external_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
FIELD(abi_external_memory_desc, size, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME(abi_external_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
SAME(abi_memcpy2d, CUDA_MEMCPY2D);
FIELD(abi_memcpy2d, dst_pitch, CUDA_MEMCPY2D, dstPitch);
SAME(abi_memcpy3d, CUDA_MEMCPY3D);
FIELD(abi_memcpy3d, src_height, CUDA_MEMCPY3D, srcHeight);
FIELD(abi_memcpy3d, dst_height, CUDA_MEMCPY3D, dstHeight);
FIELD(abi_memcpy3d, depth, CUDA_MEMCPY3D, Depth);
SAME(abi_launch_config, CUlaunchConfig);
FIELD(abi_launch_config, stream, CUlaunchConfig, hStream);
SAME(abi_kernel_node, CUDA_KERNEL_NODE_PARAMS);
FIELD(abi_kernel_node, params, CUDA_KERNEL_NODE_PARAMS, kernelParams);
FIELD(abi_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME(abi_memset_node, CUDA_MEMSET_NODE_PARAMS_v2);
FIELD(abi_memset_node, width, CUDA_MEMSET_NODE_PARAMS_v2, width);
SAME(abi_launch_params, CUDA_LAUNCH_PARAMS);
FIELD(abi_launch_params, params, CUDA_LAUNCH_PARAMS, kernelParams);
SAME(abi_memcpy3d, CUDA_MEMCPY3D_PEER);
FIELD(abi_memcpy3d, src_pitch, CUDA_MEMCPY3D_PEER, srcPitch);
FIELD(abi_memcpy3d, reserved1, CUDA_MEMCPY3D_PEER, dstContext);
SAME(abi_memop, CUstreamBatchMemOpParams);
FIELD(abi_memop, address, CUstreamBatchMemOpParams, waitValue.address);
FIELD(abi_memop, value, CUstreamBatchMemOpParams, waitValue.value64);
FIELD(abi_memop, flags, CUstreamBatchMemOpParams, writeValue.flags);
FIELD(abi_memop, barrier_flags, CUstreamBatchMemOpParams, memoryBarrier.flags);
SAME(abi_batch_node, CUDA_BATCH_MEM_OP_NODE_PARAMS);
FIELD(abi_batch_node, operations, CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray);
SAME(abi_host_node, CUDA_HOST_NODE_PARAMS);
SAME(abi_memcpy_node, CUDA_MEMCPY_NODE_PARAMS);
FIELD(abi_memcpy_node, copy, CUDA_MEMCPY_NODE_PARAMS, copyParams);
SAME(abi_mem_alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS);
FIELD(abi_mem_alloc_node, address, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME(abi_node_params, CUgraphNodeParams);
FIELD(abi_node_params, u, CUgraphNodeParams, kernel);
SAME(abi_edge_data, CUgraphEdgeData);
SAME(abi_instantiate_params, CUDA_GRAPH_INSTANTIATE_PARAMS);
FIELD(abi_instantiate_params, result, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);
SAME(abi_update_info, CUgraphExecUpdateResultInfo);
SAME(abi_affinity, CUexecAffinityParam);
SAME(abi_dev_resource, CUdevResource);
FIELD(abi_dev_resource, u, CUdevResource, sm);
_Static_assert((int)LIMITS <= CU_LIMIT_MAX &&
                   CU_LIMIT_PERSISTING_L2_CACHE_SIZE == (int)LIMIT_PERSISTING_L2,
               "limits");
_Static_assert((int)NODE_BATCH == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
                   (int)NODE_MEM_FREE == CU_GRAPH_NODE_TYPE_MEM_FREE &&
                   (int)NODE_EMPTY == CU_GRAPH_NODE_TYPE_EMPTY,
               "nodes");
_Static_assert((int)WAIT_NOR == CU_STREAM_WAIT_VALUE_NOR &&
                   (int)WAIT_FLUSH == CU_STREAM_WAIT_VALUE_FLUSH &&
                   (int)MEMOP_WRITE_64 == CU_STREAM_MEM_OP_WRITE_VALUE_64 &&
                   (int)MEMOP_BARRIER == CU_STREAM_MEM_OP_BARRIER,
               "stream memory operations");
_Static_assert((int)ERR_GRAPH_EXEC_UPDATE_FAILURE == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
               "errors");

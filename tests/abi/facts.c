/* Prints the facts that facts.awk took from abi/cuda*.h, as the header that this is compiled with
 * has them. */
#include "abi/cuda.h"

#include <stddef.h>
#include <stdio.h>

#define VALUE(name) printf("%s = %lld\n", #name, (long long)(name))
#define SIZE(type)  printf("sizeof(%s) = %zu, aligned %zu\n", #type, sizeof(type), _Alignof(type))
#define FIELD(type, name)                                                                          \
    printf("%s.%s at %zu, %zu long\n", #type, #name, offsetof(type, name),                         \
           sizeof(((type *)0)->name))

int main(void)
{
#include "facts.inc"
    /* inside structures */
    FIELD(CUmemAllocationProp, allocFlags.compressionType);
    FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
    FIELD(CUmemAllocationProp, allocFlags.usage);
    FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.fd);
    FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.win32.handle);
    FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.nvSciBufObject);
    FIELD(CUexecAffinityParam, param.smCount.val);
    FIELD(CUmemcpy3DOperand, op.ptr.ptr);
    FIELD(CUmemcpy3DOperand, op.array.array);
    FIELD(CUdevResource, sm);
    FIELD(CUstreamBatchMemOpParams, waitValue.alias);
    FIELD(CUstreamBatchMemOpParams, writeValue.value64);
    FIELD(CUstreamBatchMemOpParams, memoryBarrier.flags);
    FIELD(CUgraphNodeParams, kernel);
    FIELD(CUgraphNodeParams, memcpy.copyParams);
    FIELD(CUgraphNodeParams, memset.ctx);
    FIELD(CUgraphNodeParams, host.userData);
    FIELD(CUgraphNodeParams, eventRecord.event);
    FIELD(CUgraphNodeParams, free.dptr);
    FIELD(CUgraphNodeParams, memOp);
    FIELD(CUgraphNodeParams, alloc);
    FIELD(CUgraphNodeParams, graph.graph);
    return 0;
}

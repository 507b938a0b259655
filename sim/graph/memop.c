/*
 * Stream memory operations: waiting for a word in memory, and writing one, in the order of a
 * stream. The memory is real: pinned host memory, which may be a file that other processes have
 * mapped too, managed memory, and device memory as far as it is kept.
 */
#include "graph.h"

#define BATCH_MAX 256

static int check_word(devptr address, bool wide)
{
    bool known;

    if (!address || address % word_bytes(wide))
        return CUDA_ERROR_INVALID_VALUE;
    if (word_find(address, wide, &known))
        return CUDA_SUCCESS;
    return known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

static int check_one(const CUstreamBatchMemOpParams *operation, bool old)
{
    bool wide = operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

    switch (operation->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (operation->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
            return CUDA_ERROR_NOT_SUPPORTED; /* as the attribute of the device says */
        return operation->waitValue.flags > CU_STREAM_WAIT_VALUE_NOR
                   ? CUDA_ERROR_INVALID_VALUE
                   : check_word(operation->waitValue.address, wide);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return operation->waitValue.flags > (old ? 1U : 0U)
                   ? CUDA_ERROR_INVALID_VALUE
                   : check_word(operation->waitValue.address, wide);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    case CU_STREAM_MEM_OP_BARRIER:
        return old || operation->memoryBarrier.flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

int memop_check(const CUstreamBatchMemOpParams *operations, unsigned count, bool old)
{
    int code = operations && count <= BATCH_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (unsigned at = 0; at < count && !code; at++)
        code = check_one(&operations[at], old);
    return code;
}

int memop_submit(struct sim_stream *stream, const CUstreamBatchMemOpParams *operation)
{
    bool wide = operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    bool waits = operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                 operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    struct sim_memop memop = {operation->waitValue.address,
                              wide ? operation->waitValue.value64
                                   : (uint32_t)operation->waitValue.value64,
                              waits ? operation->waitValue.flags : 0, wide};

    if (operation->operation == CU_STREAM_MEM_OP_BARRIER || (sim.noop && waits))
        return CUDA_SUCCESS;
    if (!sim.noop)
        return work_submit(
            stream, (struct sim_op){.kind = waits ? OP_WAIT_WORD : OP_WRITE_WORD, .memop = memop});
    word_write(&memop); /* whoever waits for it would wait for ever */
    return CUDA_SUCCESS;
}

static int capture_batch(struct sim_stream *stream, const CUstreamBatchMemOpParams *operations,
                         unsigned count)
{
    int code = capture_check(stream);
    struct sim_node *node =
        code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {stream->context, count,
                                           (CUstreamBatchMemOpParams *)operations, 0};

    if (!node)
        return code ? code : CUDA_ERROR_OUT_OF_MEMORY;
    code = node_set_batch(node, &batch);
    return code ? code : capture_add(stream, node);
}

static int batch(struct sim_stream *handle, const CUstreamBatchMemOpParams *operations,
                 unsigned count, unsigned flags, bool old)
{
    if (old && !sim.old_memops)
        return CUDA_ERROR_NOT_SUPPORTED;
    NEED_STREAM(stream, handle);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream_captures(stream))
        TRY(capture_legacy_check(stream));
    sim_lock();
    int code = memop_check(operations, count, old);
    if (!code && stream_captures(stream))
        code =
            old ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : capture_batch(stream, operations, count);
    else
        for (unsigned at = 0; at < count && !code; at++)
            code = memop_submit(stream, &operations[at]);
    sim_unlock();
    return code;
}

static int one(struct sim_stream *stream, int operation, devptr address, uint64_t value,
               unsigned flags, bool old)
{
    CUstreamBatchMemOpParams memop = {.waitValue.operation = operation,
                                      .waitValue.address = address,
                                      .waitValue.value64 = value,
                                      .waitValue.flags = flags};

    return batch(stream, &memop, 1, 0, old);
}

#define ONE(symbol, operation, type)                                                               \
    API_PTSZ(symbol, one(stream, operation, address, value, flags, true),                          \
             struct sim_stream *stream, devptr address, type value, unsigned flags)                \
    API_PTSZ(symbol##_v2, one(stream, operation, address, value, flags, false),                    \
             struct sim_stream *stream, devptr address, type value, unsigned flags)
ONE(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, uint32_t)
ONE(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, uint64_t)
ONE(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, uint32_t)
ONE(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, uint64_t)

API_PTSZ(cuStreamBatchMemOp, batch(stream, operations, count, flags, true),
         struct sim_stream *stream, unsigned count, CUstreamBatchMemOpParams *operations,
         unsigned flags)
API_PTSZ(cuStreamBatchMemOp_v2, batch(stream, operations, count, flags, false),
         struct sim_stream *stream, unsigned count, CUstreamBatchMemOpParams *operations,
         unsigned flags)

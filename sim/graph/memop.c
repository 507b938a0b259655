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
        return ERR_INVALID_VALUE;
    if (word_find(address, wide, &known))
        return OK;
    return known ? ERR_NOT_SUPPORTED : ERR_INVALID_VALUE;
}

static int check_one(const struct abi_memop *operation, bool old)
{
    bool wide = operation->operation == MEMOP_WAIT_64 || operation->operation == MEMOP_WRITE_64;

    switch (operation->operation) {
    case MEMOP_WAIT_32:
    case MEMOP_WAIT_64:
        if (operation->flags & WAIT_FLUSH)
            return ERR_NOT_SUPPORTED; /* as the attribute of the device says */
        return operation->flags > WAIT_NOR ? ERR_INVALID_VALUE
                                           : check_word(operation->address, wide);
    case MEMOP_WRITE_32:
    case MEMOP_WRITE_64:
        return operation->flags > (old ? 1U : 0U) ? ERR_INVALID_VALUE
                                                  : check_word(operation->address, wide);
    case MEMOP_FLUSH:
        return ERR_NOT_SUPPORTED;
    case MEMOP_BARRIER:
        return old || operation->barrier_flags > 1 ? ERR_INVALID_VALUE : OK;
    default:
        return ERR_INVALID_VALUE;
    }
}

int memop_check(const struct abi_memop *operations, unsigned count, bool old)
{
    int code = operations && count <= BATCH_MAX ? OK : ERR_INVALID_VALUE;

    for (unsigned at = 0; at < count && !code; at++)
        code = check_one(&operations[at], old);
    return code;
}

int memop_submit(struct sim_stream *stream, const struct abi_memop *operation)
{
    bool wide = operation->operation == MEMOP_WAIT_64 || operation->operation == MEMOP_WRITE_64;
    bool waits = operation->operation == MEMOP_WAIT_32 || operation->operation == MEMOP_WAIT_64;
    struct sim_memop memop = {operation->address,
                              wide ? operation->value : (uint32_t)operation->value,
                              waits ? operation->flags : 0, wide};

    if (operation->operation == MEMOP_BARRIER || (sim.noop && waits))
        return OK;
    if (!sim.noop)
        return work_submit(
            stream, (struct sim_op){.kind = waits ? OP_WAIT_WORD : OP_WRITE_WORD, .memop = memop});
    word_write(&memop); /* whoever waits for it would wait for ever */
    return OK;
}

static int capture_batch(struct sim_stream *stream, const struct abi_memop *operations,
                         unsigned count)
{
    int code = capture_check(stream);
    struct sim_node *node = code ? NULL : node_new(stream->capture->graph, NODE_BATCH);
    struct abi_batch_node batch = {stream->context, count, (struct abi_memop *)operations, 0};

    if (!node)
        return code ? code : ERR_OUT_OF_MEMORY;
    code = node_set_batch(node, &batch);
    return code ? code : capture_add(stream, node);
}

static int batch(struct sim_stream *handle, const struct abi_memop *operations, unsigned count,
                 unsigned flags, bool old)
{
    if (old && !sim.old_memops)
        return ERR_NOT_SUPPORTED;
    NEED_STREAM(stream, handle);
    if (flags)
        return ERR_INVALID_VALUE;
    if (!stream_captures(stream))
        TRY(capture_legacy_check(stream));
    sim_lock();
    int code = memop_check(operations, count, old);
    if (!code && stream_captures(stream))
        code = old ? ERR_CAPTURE_UNSUPPORTED : capture_batch(stream, operations, count);
    else
        for (unsigned at = 0; at < count && !code; at++)
            code = memop_submit(stream, &operations[at]);
    sim_unlock();
    return code;
}

static int one(struct sim_stream *stream, int operation, devptr address, uint64_t value,
               unsigned flags, bool old)
{
    struct abi_memop memop = {
        .operation = operation, .address = address, .value = value, .flags = flags};

    return batch(stream, &memop, 1, 0, old);
}

#define ONE(symbol, operation, type)                                                               \
    API_PTSZ(symbol, one(stream, operation, address, value, flags, true),                          \
             struct sim_stream *stream, devptr address, type value, unsigned flags)                \
    API_PTSZ(symbol##_v2, one(stream, operation, address, value, flags, false),                    \
             struct sim_stream *stream, devptr address, type value, unsigned flags)
ONE(cuStreamWaitValue32, MEMOP_WAIT_32, uint32_t)
ONE(cuStreamWaitValue64, MEMOP_WAIT_64, uint64_t)
ONE(cuStreamWriteValue32, MEMOP_WRITE_32, uint32_t)
ONE(cuStreamWriteValue64, MEMOP_WRITE_64, uint64_t)

API_PTSZ(cuStreamBatchMemOp, batch(stream, operations, count, flags, true),
         struct sim_stream *stream, unsigned count, struct abi_memop *operations, unsigned flags)
API_PTSZ(cuStreamBatchMemOp_v2, batch(stream, operations, count, flags, false),
         struct sim_stream *stream, unsigned count, struct abi_memop *operations, unsigned flags)

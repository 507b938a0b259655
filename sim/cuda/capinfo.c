/* Queries of a stream's capture, and changes of its dependencies. */
#include "graph.h"

static int is_capturing(struct sim_stream *handle, CUstreamCaptureStatus *ret_status)
{
    NEED_STREAM(stream, handle);
    if (!ret_status)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream_captures(stream)) {
        *ret_status = CU_STREAM_CAPTURE_STATUS_NONE;
        return capture_legacy_ask(stream);
    }
    sim_lock();
    *ret_status = stream->capture ? stream->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    sim_unlock();
    return CUDA_SUCCESS;
}

API_PTSZ(cuStreamIsCapturing, is_capturing(stream, ret_status), struct sim_stream *stream,
         CUstreamCaptureStatus *ret_status)

static int capture_info(struct sim_stream *handle, int *ret_status, uint64_t *ret_id,
                        struct sim_graph **ret_graph, struct sim_node *const **ret_tips,
                        size_t *ret_count)
{
    NEED_STREAM(stream, handle);
    if (!ret_status)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_legacy_ask(stream));
    sim_lock();
    struct sim_capture *capture = stream->capture;
    *ret_status = capture ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    if (capture && capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (ret_id)
            *ret_id = capture->id;
        if (ret_graph)
            *ret_graph = capture->graph;
        if (ret_tips)
            *ret_tips = stream->tips.list;
        if (ret_count)
            *ret_count = (size_t)stream->tips.count;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

API_PTSZ(cuStreamGetCaptureInfo, capture_info(stream, ret_status, ret_id, NULL, NULL, NULL),
         struct sim_stream *stream, int *ret_status, uint64_t *ret_id)
API_PTSZ(cuStreamGetCaptureInfo_v2,
         capture_info(stream, ret_status, ret_id, ret_graph, ret_tips, ret_count),
         struct sim_stream *stream, int *ret_status, uint64_t *ret_id, struct sim_graph **ret_graph,
         struct sim_node *const **ret_tips, size_t *ret_count)

API(cuStreamGetCaptureInfo_v3, struct sim_stream *stream, int *ret_status, uint64_t *ret_id,
    struct sim_graph **ret_graph, struct sim_node *const **ret_tips,
    const CUgraphEdgeData **ret_edges, size_t *ret_count)
{
    ENTER(cuStreamGetCaptureInfo_v3);
    if (ret_edges)
        *ret_edges = NULL;
    return capture_info(stream, ret_status, ret_id, ret_graph, ret_tips, ret_count);
}

API(cuStreamGetCaptureInfo_v3_ptsz, struct sim_stream *stream, int *ret_status, uint64_t *ret_id,
    struct sim_graph **ret_graph, struct sim_node *const **ret_tips,
    const CUgraphEdgeData **ret_edges, size_t *ret_count)
{
    ENTER(cuStreamGetCaptureInfo_v3_ptsz);
    if (ret_edges)
        *ret_edges = NULL;
    return capture_info(PTSZ(stream), ret_status, ret_id, ret_graph, ret_tips, ret_count);
}

enum { UPDATE_ADD, UPDATE_SET };

static int update_tips(struct sim_stream *handle, struct sim_node *const *needs, size_t count,
                       unsigned how)
{
    NEED_STREAM(stream, handle);
    if ((count && !needs) || how > UPDATE_SET)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = capture_check(stream);
    if (!code && how == UPDATE_SET)
        stream->tips.count = 0;
    for (size_t at = 0; at < count && !code; at++) {
        if (!nodes_have(&stream->tips, needs[at]) && !nodes_add(&stream->tips, needs[at]))
            code = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return code;
}

API_PTSZ(cuStreamUpdateCaptureDependencies, update_tips(stream, needs, count, how),
         struct sim_stream *stream, struct sim_node **needs, size_t count, unsigned how)
API_PTSZ(cuStreamUpdateCaptureDependencies_v2, update_tips(stream, needs, count, how),
         struct sim_stream *stream, struct sim_node **needs, const CUgraphEdgeData *edges,
         size_t count, unsigned how)

/* Stream capture: how it begins, ends and spreads through events, and what invalidates it. A
 * capture belongs to its first stream. Streams that wait for a captured event join it. */
#include "graph.h"

#include <stdlib.h>

int capture_add(struct sim_stream *stream, struct sim_node *node)
{
    int code = node_depend(node, stream->tips.list, (size_t)stream->tips.count);

    if (code)
        return code;
    stream->tips.count = 0;
    return nodes_add(&stream->tips, node) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int capture_record(struct sim_stream *stream, struct sim_event *event)
{
    sim_lock();
    int code = capture_check(stream);
    if (!code) {
        event->capture_id = stream->capture->id;
        nodes_clear(&event->nodes);
        for (int at = 0; at < stream->tips.count && !code; at++)
            code = nodes_add(&event->nodes, stream->tips.list[at]) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return code;
}

int capture_asked(struct sim_event *event)
{
    sim_lock();
    struct sim_capture *capture = capture_of_id(event->capture_id);
    if (capture)
        capture_invalidate(capture);
    sim_unlock();
    return CUDA_ERROR_CAPTURED_EVENT;
}

static int join(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *capture = event->capture_id ? capture_of_id(event->capture_id) : NULL;

    if (event->capture_id && !capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!capture) {
        /* waiting for work outside of the capture */
        capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture && stream->capture != capture) {
        capture_invalidate(stream->capture);
        capture_invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!stream->capture) {
        stream->capture = capture;
        stream->tips.count = 0;
    }
    for (int at = 0; at < event->nodes.count; at++) {
        if (!nodes_have(&stream->tips, event->nodes.list[at]) &&
            !nodes_add(&stream->tips, event->nodes.list[at]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

int capture_wait(struct sim_stream *stream, struct sim_event *event)
{
    sim_lock();
    bool never = event->state == EVENT_NEVER && !event->capture_id;
    int code = never ? CUDA_SUCCESS : join(stream, event);
    sim_unlock();
    return code;
}

static int begin_locked(struct sim_stream *stream, int mode, struct sim_graph *graph)
{
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_capture *capture = calloc(1, sizeof(*capture));
    struct sim_graph *target = graph ? graph : graph_new();
    if (!capture || !target) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct sim_capture){sim_number(), mode,   CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                    target,       !graph, stream,
                                    &sim_thread,  NULL};
    capture_opened(capture);
    stream->capture = capture;
    stream->tips.count = 0;
    return CUDA_SUCCESS;
}

static int begin(struct sim_stream *handle, int mode, struct sim_graph *graph,
                 struct sim_node *const *needs, size_t count)
{
    NEED_STREAM(stream, handle);
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_lock();
    int code = begin_locked(stream, mode, graph);
    for (size_t at = 0; at < count && !code; at++)
        code = nodes_add(&stream->tips, needs[at]) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    sim_unlock();
    return code;
}

API_PTSZ(cuStreamBeginCapture, begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0),
         struct sim_stream *stream)
API_PTSZ(cuStreamBeginCapture_v2, begin(stream, mode, NULL, NULL, 0), struct sim_stream *stream,
         CUstreamCaptureMode mode)

API(cuStreamBeginCaptureToGraph, struct sim_stream *stream, struct sim_graph *graph,
    const CUgraphNode *needs, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    ENTER(cuStreamBeginCaptureToGraph);
    (void)edges;
    if (!IS(graph, MAGIC_GRAPH) || (count && !needs))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, graph, needs, count);
}

API(cuStreamBeginCaptureToGraph_ptsz, struct sim_stream *stream, struct sim_graph *graph,
    const CUgraphNode *needs, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    ENTER(cuStreamBeginCaptureToGraph_ptsz);
    (void)edges;
    if (!IS(graph, MAGIC_GRAPH) || (count && !needs))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(PTSZ(stream), mode, graph, needs, count);
}

/* Marks all nodes that a node depends on. */
static void mark_before(struct sim_node *node)
{
    if (node->mark)
        return;
    node->mark = 1;
    for (int at = 0; at < node->needs.count; at++)
        mark_before(node->needs.list[at]);
}

/* Takes all streams out of the capture. True if all had been joined back into the origin. */
static bool leave_all(struct sim_capture *capture)
{
    struct sim_stream *origin = capture->origin;
    bool joined = true;

    for (int at = 0; at < capture->graph->nodes.count; at++)
        capture->graph->nodes.list[at]->mark = 0;
    for (int at = 0; at < origin->tips.count; at++)
        mark_before(origin->tips.list[at]);
    for (struct sim_context *context = sim.contexts; context; context = context->next) {
        for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
            if (stream->capture != capture)
                continue;
            for (int at = 0; at < stream->tips.count; at++)
                joined &= stream->tips.list[at]->mark;
            stream->capture = NULL;
            stream->tips.count = 0;
        }
    }
    return joined;
}

static int end_locked(struct sim_stream *stream, struct sim_graph **ret_graph)
{
    struct sim_capture *capture = stream->capture;

    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        capture_invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->thread != &sim_thread && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    bool joined = leave_all(capture), valid = capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capture_closed(capture);
    if (valid && joined)
        *ret_graph = capture->graph;
    else {
        *ret_graph = NULL;
        if (capture->own_graph)
            graph_free(capture->graph);
    }
    free(capture);
    return !valid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
           : joined ? CUDA_SUCCESS
                    : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static int end(struct sim_stream *handle, struct sim_graph **ret_graph)
{
    NEED_STREAM(stream, handle);
    if (!ret_graph)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = end_locked(stream, ret_graph);
    sim_unlock();
    return code;
}

API_PTSZ(cuStreamEndCapture, end(stream, ret_graph), struct sim_stream *stream,
         struct sim_graph **ret_graph)

API(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    ENTER(cuThreadExchangeStreamCaptureMode);
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int old = sim_thread.capture_mode;
    sim_thread.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* CUDA's types in the simulator: its handles are pointers to the simulator's own objects. */
#ifndef SIM_ABI_H
#define SIM_ABI_H

#define CUctx_st            sim_context
#define CUgreenCtx_st       sim_green
#define CUstream_st         sim_stream
#define CUevent_st          sim_event
#define CUmod_st            sim_module
#define CUlib_st            sim_library
#define CUfunc_st           sim_function
#define CUkern_st           sim_function
#define CUarray_st          sim_array
#define CUmipmappedArray_st sim_mipmap
#define CUmemPoolHandle_st  sim_pool
#define CUgraph_st          sim_graph
#define CUgraphNode_st      sim_node
#define CUgraphExec_st      sim_exec
#define CUextMemory_st      sim_external

#include "abi/entry_points.h"

typedef CUdeviceptr devptr;

#endif

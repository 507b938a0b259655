/* Changes to an executable graph: its measured cost no longer holds. */
#include "hook/work/compute.h"
#include "hook/memory/graph.h"

#define UPDATE(handler)                                                                            \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        CUresult result = FORWARD(sym, handler);                                                   \
                                                                                                   \
        if (result == CUDA_SUCCESS)                                                                \
            compute_changed(graph_cost_key(exec));                                                 \
        return result;                                                                             \
    }

UPDATE(graph_exec_batch_mem_op_set_params)
UPDATE(graph_exec_child_set_params)
UPDATE(graph_exec_kernel_set_params_v1)
UPDATE(graph_exec_kernel_set_params)
UPDATE(graph_exec_memcpy_set_params)
UPDATE(graph_exec_memset_set_params)
UPDATE(graph_exec_node_set_params)
UPDATE(graph_exec_update_v1)
UPDATE(graph_exec_update)
UPDATE(graph_node_set_enabled)

/* The driver's entry points that the library exports: one function for each HOOK id of
 * spec/driver.def. */
#include "hook/wrap.h"

/*
 * Which handlers a thread is not cancelled in, by the group of their rows: those that take or give
 * back something between a reservation and a charge. What starts work or waits for it may last, so
 * there the handlers guard what they do themselves: BARE_<handler> takes such a one out of its
 * group. It also takes out cuMemFreeAsync, which is called often and holds nothing but for plain
 * memory.
 */
enum {
    STEADY_checkpoint = 1,
    STEADY_context = 1,
    STEADY_copy = 0,
    STEADY_device = 1,
    STEADY_event = 0,
    STEADY_external = 1,
    STEADY_graph = 1,
    STEADY_greencontext = 1,
    STEADY_launch = 0,
    STEADY_memory = 1,
    STEADY_memset = 0,
    STEADY_module = 1,
    STEADY_multicast = 1,
    STEADY_other = 1,
    STEADY_pointer = 1,
    STEADY_pool = 1,
    STEADY_stream = 1,
    STEADY_vmm = 1
};
#define BARE_ctx_synchronize    , 0
#define BARE_ctx_synchronize_v2 , 0
#define BARE_graph_launch       , 0
#define BARE_graph_upload       , 0
#define BARE_mem_free_async     , 0
#define BARE_stream_query       , 0
#define BARE_stream_synchronize , 0

#define STEADY(group, handler)      SECOND(BARE_##handler, STEADY_##group, )
#define SECOND(...)                 SECOND_(__VA_ARGS__) /* expands the comma of BARE_ */
#define SECOND_(first, second, ...) second

#define PASS(sym, group)
#define HOOK(sym, group, role, handler)                                                            \
    WRAP(CUresult, sym, handler, LIBRARY_CUDA, SYMBOL_##sym, SYMBOL_##sym,                         \
         hook_real[SYMBOL_##sym], hook_missing(SYMBOL_##sym), STEADY(group, handler))
#include "driver.def"

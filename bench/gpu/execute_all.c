/*
 * For finding out whether the driver takes every allocation of an object from the supervisor: linked into vgpu with
 * -Wl,--wrap=decode_call, it has all of them executed but those of clients, which the driver ties to the calling
 * process, and of events, which are made on a card's node.
 */
#include "guard/decode.h"

static bool is_event(uint32_t class_id)
{
    return class_id == 0x5 || class_id == 0x78 || class_id == 0x79 || class_id == 0x7e;
}

int __real_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call);
int __wrap_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call);

int __wrap_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call)
{
    int rc = __real_decode_call(branch, strict, key, arg, ret_call);

    if (rc == 0 && ret_call->kind == RM_KIND_ALLOC && ret_call->action == RM_CONTINUE && !ret_call->is_root &&
        !is_event(ret_call->class_id)) {
        ret_call->action = RM_EXECUTE;
        ret_call->params_bytes = ret_call->params ? RM_PARAMS_MAX : 0;
    }
    return rc;
}

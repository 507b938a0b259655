/*
 * For finding out whether the driver takes every allocation of an object from the supervisor: linked into vgpu with
 * -Wl,--wrap=decode_call, it has all of them executed but those of clients, which the driver ties to the calling
 * process.
 */
#include "guard/decode.h"

int __real_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call);
int __wrap_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call);

int __wrap_decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                       struct rm_call *ret_call)
{
    int rc = __real_decode_call(branch, strict, key, arg, ret_call);

    if (rc == 0 && ret_call->kind == RM_KIND_ALLOC && ret_call->action == RM_CONTINUE && !ret_call->is_root) {
        ret_call->action = RM_EXECUTE;
        ret_call->params_bytes = ret_call->params ? RM_PARAMS_MAX : 0;
    }
    return rc;
}

#include "guard/nvidia/rm.h"

#include "base/err.h"

#include <sys/ioctl.h>

int rm_alloc(int fd, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t class_id,
             void *params, uint32_t bytes)
{
    struct rm_alloc alloc = {.root = client,
                             .parent = parent,
                             .handle = *handle,
                             .class_id = class_id,
                             .params = (uintptr_t)params,
                             .params_bytes = bytes};

    if (ioctl(fd, RM_IOCTL(RM_ESC_ALLOC, sizeof(alloc)), &alloc) < 0)
        return err_last();
    *handle = alloc.handle;
    return (int)alloc.status;
}

int rm_alloc_subdevice(int fd, uint32_t client, uint32_t device, uint32_t *ret_handle)
{
    uint32_t which = 0;

    *ret_handle = 0;
    return rm_alloc(fd, client, device, ret_handle, RM_CLASS_SUBDEVICE, &which, sizeof(which));
}

int rm_control(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t bytes)
{
    struct rm_control control = {.client = client,
                                 .object = object,
                                 .cmd = cmd,
                                 .params = (uintptr_t)params,
                                 .params_bytes = bytes};

    return ioctl(fd, RM_IOCTL(RM_ESC_CONTROL, sizeof(control)), &control) < 0 ? err_last()
                                                                              : (int)control.status;
}

int rm_dup(int fd, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t source_client,
           uint32_t source)
{
    struct rm_dup_object dup = {.client = client,
                                .parent = parent,
                                .handle = *handle,
                                .source_client = source_client,
                                .source_handle = source};

    if (ioctl(fd, RM_IOCTL(RM_ESC_DUP_OBJECT, sizeof(dup)), &dup) < 0)
        return err_last();
    *handle = dup.handle;
    return (int)dup.status;
}

int rm_share(int fd, uint32_t client, uint32_t target)
{
    struct rm_share share = {.client = client,
                             .object = client,
                             .target = target,
                             .mask = RM_SHARE_DUP,
                             .type = RM_SHARE_WITH_CLIENT,
                             .action = RM_SHARE_COMPOSE};

    return ioctl(fd, RM_IOCTL(RM_ESC_SHARE, sizeof(share)), &share) < 0 ? err_last()
                                                                        : (int)share.status;
}

int rm_free(int fd, uint32_t client, uint32_t parent, uint32_t object)
{
    struct rm_free request = {.root = client, .parent = parent, .handle = object};

    return ioctl(fd, RM_IOCTL(RM_ESC_FREE, sizeof(request)), &request) < 0 ? err_last()
                                                                           : (int)request.status;
}

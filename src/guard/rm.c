#include "guard/rm.h"

#include "base/err.h"

#include <sys/ioctl.h>

int rm_control(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t bytes)
{
    struct rm_control control = {
        .client = client, .object = object, .cmd = cmd, .params = (uintptr_t)params, .params_bytes = bytes};

    return ioctl(fd, RM_IOCTL(RM_ESC_CONTROL, sizeof(control)), &control) < 0 ? err_last() : (int)control.status;
}

int rm_free(int fd, uint32_t client, uint32_t parent, uint32_t object)
{
    struct rm_free request = {.root = client, .parent = parent, .handle = object};

    return ioctl(fd, RM_IOCTL(RM_ESC_FREE, sizeof(request)), &request) < 0 ? err_last() : (int)request.status;
}

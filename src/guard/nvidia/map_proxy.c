/*
 * Mapping memory by UVM from the supervisor (VGPU_GUARD_MAP=supervisor).
 *
 * If the program makes the call, the driver reads it again, and a second thread can have put the
 * handle of other memory there. If that memory is freed, it stays mapped, and is in no figure. But
 * UVM takes a duplicate of the memory, and the driver lets only the process that made the client
 * take one (client_resource.c). So the supervisor has a client of its own. The program's client
 * allows that one, and no other, to duplicate (RM_ESC_SHARE). The memory is duplicated there,
 * mapped by that handle, and the duplicate is freed: UVM's own stays.
 */
#include "guard/nvidia/request.h"

#include "base/err.h"
#include "account/vdev.h"
#include "guard/notify/borrowed.h"
#include "guard/notify/ratelimit.h"
#include "guard/nvidia/vdevs.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEVICE_IDS   32u /* of the driver's */
#define DEVICE_WORDS 14u /* NV0080_ALLOC_PARAMETERS; the first is the id */

/* Opens the device of a file again, wherever its node is. */
static int open_again(int fd)
{
    char path[48];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    return again < 0 ? err_last() : again;
}

static int begin(struct map_proxy *map_proxy, const struct guard_file *ctl)
{
    int rc;

    if (map_proxy->client)
        return 0;
    map_proxy->fd = open_again(ctl->fd);
    if (map_proxy->fd < 0)
        return map_proxy->fd;
    rc = rm_alloc(map_proxy->fd, 0, 0, &map_proxy->client, RM_CLASS_ROOT_CLIENT, NULL, 0);
    if (rc == RM_OK)
        return 0;
    close(map_proxy->fd);
    *map_proxy = (struct map_proxy){0};
    return -EIO;
}

/* Makes a device of the proxy's, if it is that GPU; else nothing is left of it. */
static bool try_device(struct map_proxy *map_proxy, uint32_t id, const char *uuid_text,
                       struct map_proxy_device *ret_device)
{
    uint32_t params[DEVICE_WORDS] = {id};
    struct map_proxy_device device = {.device = 0};
    char text[VGPU_UUID_LEN];
    uint8_t uuid[16];

    if (rm_alloc(map_proxy->fd, map_proxy->client, map_proxy->client, &device.device,
                 RM_CLASS_DEVICE, params, sizeof(params)) != RM_OK)
        return false;
    if (rm_alloc_subdevice(map_proxy->fd, map_proxy->client, device.device, &device.subdevice) ==
            RM_OK &&
        vdevs_uuid(map_proxy->fd, map_proxy->client, device.subdevice, uuid) == 0) {
        vdev_uuid_text("GPU", uuid, text);
        if (strcmp(text, uuid_text) == 0) {
            *ret_device = device;
            return true;
        }
    }
    rm_free(map_proxy->fd, map_proxy->client, map_proxy->client, device.device);
    return false;
}

static int find_device(struct nvidia *nvidia, pid_t tid, unsigned vdev,
                       struct map_proxy_device **ret_device)
{
    struct map_proxy *map_proxy = &nvidia->map_proxy;
    struct map_proxy_device *device = &map_proxy->device[vdev];
    struct borrowed borrowed;

    *ret_device = device;
    if (device->device || device->missing)
        return device->device ? 0 : -ENODEV;
    borrow_gpus(nvidia->notify, tid, &borrowed);
    for (uint32_t id = 0; id < DEVICE_IDS && !device->device; id++)
        try_device(map_proxy, id, nvidia->device[vdev].uuid_text, device);
    borrowed_close(&borrowed);
    device->missing = !device->device; /* not to be looked for each time */
    return device->device ? 0 : -ENODEV;
}

/* The model does not know memory that is made of the program's own pages, by a call that is not
 * trapped (RM_ESC_ALLOC_MEMORY). The driver does. */
static int parent_of(const struct nvidia *nvidia, const struct guard_file *ctl,
                     const struct uvm_map_external *map, uint32_t *ret_parent)
{
    struct rm_handle_info info = {.object = map->memory, .index = RM_HANDLE_PARENT};

    if (objects_parent(nvidia->objects, map->client, map->memory, ret_parent) == 0)
        return 0;
    if (rm_control(ctl->fd, map->client, map->client, RM_CTRL_CLIENT_GET_HANDLE_INFO, &info,
                   sizeof(info)) != RM_OK)
        return -ENOENT;
    *ret_parent = (uint32_t)info.result;
    return 0;
}

/* The driver wants the parent of a duplicate to be of the kind that the memory's is. */
static int find_parent(struct nvidia *nvidia, pid_t tid, const struct guard_file *ctl,
                       const struct uvm_map_external *map, uint32_t *ret_parent)
{
    uint32_t parent, class_id;
    struct map_proxy_device *device;
    unsigned vdev;

    if (parent_of(nvidia, ctl, map, &parent) < 0 ||
        objects_class(nvidia->objects, map->client, parent, &class_id) < 0)
        return -ENOENT;
    *ret_parent = nvidia->map_proxy.client;
    if (class_id != RM_CLASS_DEVICE && class_id != RM_CLASS_SUBDEVICE)
        return 0;
    if (vdevs_find(nvidia, ctl, map->client, parent, &vdev) < 0 ||
        find_device(nvidia, tid, vdev, &device) < 0)
        return -ENODEV;
    *ret_parent = class_id == RM_CLASS_DEVICE ? device->device : device->subdevice;
    return 0;
}

/* The driver's status, or -errno. */
static int duplicate(struct nvidia *nvidia, pid_t tid, const struct guard_file *ctl,
                     const struct uvm_map_external *map, uint32_t *ret_handle, uint32_t *ret_parent)
{
    struct map_proxy *map_proxy = &nvidia->map_proxy;
    int rc = begin(map_proxy, ctl);

    if (rc == 0)
        rc = find_parent(nvidia, tid, ctl, map, ret_parent);
    if (rc == -ENOENT)
        return RM_ERR_OBJECT_NOT_FOUND;
    if (rc < 0)
        return rc;
    *ret_handle = 0;
    rc =
        rm_dup(map_proxy->fd, map_proxy->client, *ret_parent, ret_handle, map->client, map->memory);
    if (rc != RM_ERR_INSUFFICIENT_PERMISSIONS)
        return rc;
    /* The first time, or the program has taken it back. */
    rc = rm_share(ctl->fd, map->client, map_proxy->client);
    *ret_handle = 0;
    return rc == RM_OK ? rm_dup(map_proxy->fd, map_proxy->client, *ret_parent, ret_handle,
                                map->client, map->memory)
                       : rc;
}

int map_proxy_map(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    struct uvm_map_external *map = &request->uvm.map, ours = *map;
    const struct guard_file *ctl =
        file_by_number(nvidia->notify, clients_file(&nvidia->clients, map->client));
    struct map_proxy *map_proxy = &nvidia->map_proxy;
    uint32_t parent;
    int rc;

    /* As the driver does it. */
    if (!ctl || clients_owner(&nvidia->clients, map->client) != request->process->owner) {
        map->status = ctl ? RM_ERR_INSUFFICIENT_PERMISSIONS : RM_ERR_INVALID_CLIENT;
        return 0;
    }
    rc = duplicate(nvidia, request->trap->tid, ctl, map, &ours.memory, &parent);
    if (rc != RM_OK) {
        log_ratelimited(
            "guard: memory %#x of client %#x cannot be mapped by the supervisor: %s %#x",
            map->memory, map->client, rc < 0 ? "errno" : "status", (unsigned)(rc < 0 ? -rc : rc));
        map->status = rc < 0 ? RM_ERR_INSUFFICIENT_PERMISSIONS : (uint32_t)rc;
        return 0;
    }
    ours.client = map_proxy->client;
    ours.rm_fd = map_proxy->fd;
    if (!request_valid(request))
        rc = -EINTR;
    else if (ioctl(request->file->fd, UVM_MAP_EXTERNAL_ALLOCATION, &ours) < 0)
        rc = err_last();
    if (rm_free(map_proxy->fd, map_proxy->client, parent, ours.memory) != RM_OK)
        log_ratelimited("guard: a duplicate of memory %#x of client %#x could not be freed: it "
                        "stays on the GPU as long as vgpu runs",
                        map->memory, map->client);
    map->status = ours.status;
    return rc;
}

void map_proxy_done(struct map_proxy *map_proxy)
{
    if (map_proxy->client)
        close(map_proxy->fd);
    *map_proxy = (struct map_proxy){0};
}

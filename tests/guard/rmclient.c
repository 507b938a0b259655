#include "rmclient.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DMABUF_BYTES 2608 /* from branch 570 on */

#define FIRST_ADDRESS 0x700000000000ULL
#define PARENT_OF_ALL 0u

#define CLASS_EVENT_OS 0x79u

int rmclient_ioctl(int fd, unsigned long cmd, void *arg)
{
    return syscall(SYS_ioctl, fd, cmd, arg) < 0 ? -errno : 0;
}

int rmclient_call(int fd, uint32_t nr, uint32_t size, void *arg)
{
    return rmclient_ioctl(fd, RM_IOCTL(nr, size), arg);
}

int rmclient_call_xfer(int fd, uint32_t nr, uint32_t size, void *arg)
{
    struct rm_xfer xfer = {.nr = nr, .size = size, .params = (uintptr_t)arg};

    return rmclient_call(fd, RM_ESC_XFER, sizeof(xfer), &xfer);
}

int rmclient_open_file(const char *dir, const char *name)
{
    char path[512];
    int fd;

    if (!dir)
        dir = getenv("FAKERM_DIR");
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/dev", name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int rmclient_root(int ctl, uint32_t *client)
{
    struct rm_alloc alloc = {.handle = *client, .class_id = RM_CLASS_ROOT_CLIENT};
    int rc = rmclient_call(ctl, RM_ESC_ALLOC, sizeof(alloc), &alloc);

    if (rc == 0 && alloc.status == RM_OK)
        *client = alloc.handle;
    return rc < 0 ? rc : (int)alloc.status;
}

static int make_devices(struct rmclient *client)
{
    uint32_t device[14] = {client->gpu}, subdevice = 0;
    struct rm_gid_info gid = {.flags = RM_GID_BINARY};
    char name[16];
    int rc;

    snprintf(name, sizeof(name), "nvidia%u", client->gpu);
    client->card = rmclient_open_file(client->dir, name);
    if (client->card < 0)
        return client->card;
    rc = rmclient_alloc(client, client->client, &client->device, RM_CLASS_DEVICE, device,
                        sizeof(device));

    if (rc == 0)
        rc = rmclient_alloc(client, client->device, &client->subdevice, RM_CLASS_SUBDEVICE,
                            &subdevice, sizeof(subdevice));
    if (rc == 0)
        rc = rmclient_control(client, client->subdevice, RM_CTRL_GPU_GET_GID_INFO, &gid,
                              sizeof(gid));
    if (rc == 0)
        memcpy(client->uuid, gid.data, sizeof(client->uuid));
    return rc;
}

int rmclient_attach(const char *dir, int ctl, unsigned gpu, struct rmclient *ret_client)
{
    struct rmclient client = {
        .ctl = ctl, .uvm = -1, .card = -1, .gpu = gpu, .next_address = FIRST_ADDRESS};
    int rc;

    if (!dir)
        dir = getenv("FAKERM_DIR");
    snprintf(client.dir, sizeof(client.dir), "%s", dir ? dir : "/dev");
    rc = rmclient_root(ctl, &client.client);
    if (rc == 0)
        rc = make_devices(&client);
    if (rc == 0)
        *ret_client = client;
    else if (client.card >= 0)
        close(client.card);
    return rc;
}

int rmclient_open(const char *dir, unsigned gpu, struct rmclient *ret_client)
{
    int ctl = rmclient_open_file(dir, "nvidiactl");
    int rc = ctl < 0 ? ctl : rmclient_attach(dir, ctl, gpu, ret_client);

    if (rc != 0 && ctl >= 0)
        close(ctl);
    return rc;
}

void rmclient_close(struct rmclient *client)
{
    close(client->ctl);
    if (client->uvm >= 0)
        close(client->uvm);
    if (client->card >= 0)
        close(client->card);
    client->ctl = client->uvm = client->card = -1;
}

/* Objects */

static int alloc_on(int (*send)(int fd, uint32_t nr, uint32_t size, void *arg), int fd,
                    const struct rmclient *client, uint32_t parent, uint32_t *handle,
                    uint32_t class_id, void *params, uint32_t params_bytes)
{
    struct rm_alloc alloc = {
        .root = client->client,
        .parent = parent,
        .handle = *handle,
        .class_id = class_id,
        .params = (uintptr_t)params,
        .params_bytes = params_bytes,
    };
    int rc = send(fd, RM_ESC_ALLOC, sizeof(alloc), &alloc);

    if (rc == 0 && alloc.status == RM_OK)
        *handle = alloc.handle;
    return rc < 0 ? rc : (int)alloc.status;
}

int rmclient_alloc(struct rmclient *client, uint32_t parent, uint32_t *handle, uint32_t class_id,
                   void *params, uint32_t params_bytes)
{
    return alloc_on(rmclient_call, client->ctl, client, parent, handle, class_id, params,
                    params_bytes);
}

int rmclient_alloc_xfer(struct rmclient *client, uint32_t parent, uint32_t *handle,
                        uint32_t class_id, void *params, uint32_t params_bytes)
{
    return alloc_on(rmclient_call_xfer, client->ctl, client, parent, handle, class_id, params,
                    params_bytes);
}

int rmclient_alloc_short(struct rmclient *client, uint32_t parent, uint32_t *handle,
                         uint32_t class_id, void *params, uint32_t params_bytes)
{
    struct rm_alloc_short alloc = {
        .root = client->client,
        .parent = parent,
        .handle = *handle,
        .class_id = class_id,
        .params = (uintptr_t)params,
        .params_bytes = params_bytes,
    };
    int rc = rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(alloc), &alloc);

    if (rc == 0 && alloc.status == RM_OK)
        *handle = alloc.handle;
    return rc < 0 ? rc : (int)alloc.status;
}

int rmclient_free(struct rmclient *client, uint32_t handle)
{
    struct rm_free request = {.root = client->client, .parent = PARENT_OF_ALL, .handle = handle};
    int rc = rmclient_call(client->ctl, RM_ESC_FREE, sizeof(request), &request);

    return rc < 0 ? rc : (int)request.status;
}

int rmclient_free_root(struct rmclient *client)
{
    return rmclient_free(client, client->client);
}

int rmclient_share(struct rmclient *client, uint32_t target)
{
    struct rm_share share = {.client = client->client,
                             .object = client->client,
                             .target = target,
                             .mask = RM_SHARE_DUP,
                             .type = RM_SHARE_WITH_CLIENT,
                             .action = RM_SHARE_COMPOSE};
    int rc = rmclient_call(client->ctl, RM_ESC_SHARE, sizeof(share), &share);

    return rc < 0 ? rc : (int)share.status;
}

int rmclient_dup(struct rmclient *client, uint32_t source_client, uint32_t source, uint32_t *handle)
{
    struct rm_dup_object dup = {
        .client = client->client,
        .parent = client->device,
        .handle = *handle,
        .source_client = source_client,
        .source_handle = source,
    };
    int rc = rmclient_call(client->ctl, RM_ESC_DUP_OBJECT, sizeof(dup), &dup);

    if (rc == 0 && dup.status == RM_OK)
        *handle = dup.handle;
    return rc < 0 ? rc : (int)dup.status;
}

int rmclient_control(struct rmclient *client, uint32_t object, uint32_t cmd, void *params,
                     uint32_t params_bytes)
{
    struct rm_control control = {
        .client = client->client,
        .object = object,
        .cmd = cmd,
        .params = (uintptr_t)params,
        .params_bytes = params_bytes,
    };
    int rc = rmclient_call(client->ctl, RM_ESC_CONTROL, sizeof(control), &control);

    return rc < 0 ? rc : (int)control.status;
}

int rmclient_event(struct rmclient *client, int card_fd, uint32_t parent, uint32_t *handle)
{
    struct {
        uint32_t client, object, class_id, index;
        uint64_t fd;
    } params = {.client = client->client,
                .object = parent,
                .class_id = CLASS_EVENT_OS,
                .fd = (uint64_t)card_fd};

    return alloc_on(rmclient_call, card_fd, client, parent, handle, CLASS_EVENT_OS, &params,
                    sizeof(params));
}

/* Memory */

int rmclient_memory(struct rmclient *client, uint64_t *bytes, uint32_t *handle)
{
    struct rm_memory_params params = {.owner = client->client, .size = *bytes, .numa_node = -1};
    int rc = rmclient_alloc(client, client->device, handle, RM_CLASS_MEMORY_LOCAL_USER, &params,
                            sizeof(params));

    if (rc == 0)
        *bytes = params.size;
    return rc;
}

int rmclient_heap_alloc(struct rmclient *client, uint32_t function, uint64_t *bytes,
                        uint32_t *handle)
{
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = function};
    bool range = function == RM_HEAP_ALLOC_SIZE_RANGE;
    uint64_t *size = range ? &heap.u.range.size : &heap.u.alloc.size;
    uint32_t *made = range ? &heap.u.range.handle : &heap.u.alloc.handle;
    int rc;

    *size = *bytes;
    *made = *handle;
    if (function == RM_HEAP_ALLOC_TILED_PITCH) { /* the size is the product */
        heap.u.tiled.pitch = 65536;
        heap.u.tiled.height = (uint32_t)((*bytes + 65535) / 65536);
    }
    rc = rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap);
    if (rc == 0 && heap.status == RM_OK) {
        *bytes = *size;
        *handle = *made;
    }
    return rc < 0 ? rc : (int)heap.status;
}

int rmclient_heap_free(struct rmclient *client, uint32_t handle)
{
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = RM_HEAP_FREE};
    int rc;

    heap.u.free_.handle = handle;
    rc = rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap);
    return rc < 0 ? rc : (int)heap.status;
}

int rmclient_heap_info(struct rmclient *client, uint64_t *ret_total, uint64_t *ret_free)
{
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = RM_HEAP_INFO};
    int rc = rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap);

    if (rc == 0 && heap.status == RM_OK) {
        *ret_total = heap.total;
        *ret_free = heap.free;
    }
    return rc < 0 ? rc : (int)heap.status;
}

int rmclient_fb_info(struct rmclient *client, uint64_t *ret_size, uint64_t *ret_free)
{
    struct rm_fb_info info = {
        .count = 3,
        .item = {{RM_FB_HEAP_SIZE, 0}, {RM_FB_TOTAL_RAM_SIZE, 0}, {RM_FB_HEAP_FREE, 0}}};
    int rc =
        rmclient_control(client, client->subdevice, RM_CTRL_FB_GET_INFO_V2, &info, sizeof(info));

    if (rc == 0) {
        *ret_size = (uint64_t)info.item[0].value << 10;
        *ret_free = (uint64_t)info.item[2].value << 10;
    }
    return rc;
}

int rmclient_fb_info_list(struct rmclient *client, uint64_t *ret_size, uint64_t *ret_free)
{
    struct rm_fb_info_item items[2] = {{RM_FB_HEAP_SIZE, 0}, {RM_FB_HEAP_FREE, 0}};
    struct rm_fb_info_list list = {.count = 2, .items = (uintptr_t)items};
    int rc = rmclient_control(client, client->subdevice, RM_CTRL_FB_GET_INFO, &list, sizeof(list));

    if (rc == 0) {
        *ret_size = (uint64_t)items[0].value << 10;
        *ret_free = (uint64_t)items[1].value << 10;
    }
    return rc;
}

int rmclient_pid_bytes(struct rmclient *client, uint32_t pid, uint64_t *ret_bytes)
{
    struct {
        uint32_t count, pad;
        struct {
            uint32_t pid, index, result, pad;
            uint64_t private, owned, other[4];
            uint32_t instances[2];
        } info[200];
    } *params = calloc(1, sizeof(*params));
    int rc;

    if (!params)
        return -ENOMEM;
    params->count = 1;
    params->info[0].pid = pid;
    rc = rmclient_control(client, client->subdevice, RM_CTRL_GPU_GET_PID_INFO, params,
                          sizeof(*params));
    if (rc == 0)
        *ret_bytes = params->info[0].private + params->info[0].owned;
    free(params);
    return rc;
}

int rmclient_export(struct rmclient *client, int fd, uint32_t memory)
{
    struct rm_export_object params = {.type = RM_OBJECT_TYPE_RM,
                                      .device = client->device,
                                      .parent = client->device,
                                      .object = memory,
                                      .fd = fd};

    return rmclient_control(client, client->client, RM_CTRL_EXPORT_OBJECT, &params, sizeof(params));
}

int rmclient_import(struct rmclient *client, int fd, uint32_t *handle)
{
    struct rm_import_object params = {.fd = fd,
                                      .type = RM_OBJECT_TYPE_RM,
                                      .device = client->device,
                                      .parent = client->device,
                                      .object = *handle};
    int rc =
        rmclient_control(client, client->client, RM_CTRL_IMPORT_OBJECT, &params, sizeof(params));

    if (rc == 0)
        *handle = params.object;
    return rc;
}

int rmclient_export_many(struct rmclient *client, int fd, unsigned room, unsigned first,
                         const uint32_t *memory, unsigned count)
{
    struct rm_export_objects params = {.fd = fd,
                                       .device = client->device,
                                       .room = (uint16_t)room,
                                       .count = (uint16_t)count,
                                       .index = (uint16_t)first};

    memcpy(params.object, memory,
           (count < RM_EXPORT_MAX ? count : RM_EXPORT_MAX) * sizeof(*memory));
    return rmclient_control(client, client->client, RM_CTRL_EXPORT_OBJECTS, &params,
                            sizeof(params));
}

int rmclient_import_many(struct rmclient *client, int fd, unsigned first, uint32_t *handles,
                         unsigned count)
{
    struct rm_import_objects params = {
        .fd = fd, .parent = client->device, .count = (uint16_t)count, .index = (uint16_t)first};
    int rc;

    if (count > RM_IMPORT_MAX)
        return -EINVAL;
    memcpy(params.object, handles, count * sizeof(*handles));
    rc = rmclient_control(client, client->client, RM_CTRL_IMPORT_OBJECTS, &params, sizeof(params));
    for (unsigned i = 0; rc == 0 && i < count; i++)
        handles[i] = params.type[i] == RM_IMPORT_NONE ? 0 : params.object[i];
    return rc;
}

int rmclient_dmabuf(struct rmclient *client, int card, unsigned bytes, unsigned total,
                    unsigned first, const uint32_t *memory, unsigned count, int *fd)
{
    union {
        struct rm_dmabuf head;
        uint8_t bytes[DMABUF_BYTES];
    } params = {{.fd = *fd,
                 .client = client->client,
                 .total = total,
                 .count = count,
                 .index = first,
                 .bytes = 65536}};
    uint32_t status;
    int rc;

    if (bytes > sizeof(params) || count > RM_DMABUF_MAX)
        return -EINVAL;
    memcpy(params.bytes + (bytes == DMABUF_BYTES ? 36 : 32), memory, count * sizeof(*memory));
    rc = rmclient_call(card, RM_ESC_EXPORT_DMABUF, bytes, &params);
    memcpy(&status, params.bytes + bytes - 8, sizeof(status));
    if (rc == 0 && status == RM_OK)
        *fd = params.head.fd;
    return rc < 0 ? rc : (int)status;
}

/* UVM */

int rmclient_uvm_open(struct rmclient *client)
{
    struct {
        uint64_t flags;
        uint32_t status, pad;
    } init = {0};
    int fd, rc;

    if (client->uvm >= 0)
        return 0;
    fd = rmclient_open_file(client->dir, "nvidia-uvm");
    if (fd < 0)
        return fd;
    rc = rmclient_ioctl(fd, UVM_INITIALIZE, &init);
    if (rc == 0 && init.status == RM_OK)
        client->uvm = fd;
    else
        close(fd);
    return rc < 0 ? rc : (int)init.status;
}

int rmclient_uvm_range(struct rmclient *client, uint64_t base, uint64_t length)
{
    struct {
        struct uvm_range range;
        uint32_t status, pad;
    } create = {.range = {base, length}};
    int rc = rmclient_uvm_open(client);

    if (rc == 0)
        rc = rmclient_ioctl(client->uvm, UVM_CREATE_EXTERNAL_RANGE, &create);
    return rc != 0 ? rc : (int)create.status;
}

int rmclient_uvm_map(struct rmclient *client, uint64_t base, uint64_t length, uint64_t offset,
                     uint32_t memory)
{
    struct uvm_map_external map = {
        .base = base,
        .length = length,
        .offset = offset,
        .gpu_count = 1,
        .rm_fd = client->ctl,
        .client = client->client,
        .memory = memory,
    };
    int rc;

    memcpy(map.gpu[0].uuid, client->uuid, sizeof(client->uuid));
    rc = rmclient_uvm_open(client);
    if (rc == 0)
        rc = rmclient_ioctl(client->uvm, UVM_MAP_EXTERNAL_ALLOCATION, &map);
    return rc != 0 ? rc : (int)map.status;
}

int rmclient_uvm_unmap(struct rmclient *client, uint64_t base, uint64_t length)
{
    struct uvm_unmap_external unmap = {.base = base, .length = length};
    int rc;

    memcpy(unmap.uuid, client->uuid, sizeof(client->uuid));
    rc = rmclient_ioctl(client->uvm, UVM_UNMAP_EXTERNAL, &unmap);
    return rc != 0 ? rc : (int)unmap.status;
}

/* From branch 590 on the length is gone and the status in its place. */
int rmclient_uvm_free(struct rmclient *client, uint64_t base, uint64_t length)
{
    struct {
        struct uvm_range range;
        uint32_t status, pad;
    } request = {.range = {base, length}, .status = UINT32_MAX};
    int rc = rmclient_ioctl(client->uvm, UVM_FREE, &request);

    if (rc != 0)
        return rc;
    return (int)(request.status != UINT32_MAX ? request.status : (uint32_t)request.range.length);
}

int rmclient_malloc(struct rmclient *client, uint64_t bytes, struct rmclient_block *ret_block)
{
    struct rmclient_block block = {.address = client->next_address, .bytes = bytes};
    int rc = rmclient_memory(client, &block.bytes, &block.memory);

    if (rc != 0)
        return rc;
    rc = rmclient_uvm_range(client, block.address, block.bytes);
    if (rc == 0) {
        rc = rmclient_uvm_map(client, block.address, block.bytes, 0, block.memory);
        if (rc != 0)
            rmclient_uvm_free(client, block.address, block.bytes);
    }
    if (rc != 0) {
        rmclient_free(client, block.memory);
        return rc;
    }
    client->next_address += block.bytes;
    *ret_block = block;
    return 0;
}

int rmclient_mfree(struct rmclient *client, const struct rmclient_block *block)
{
    int rc = rmclient_uvm_free(client, block->address, block->bytes);
    int freed = rmclient_free(client, block->memory);

    return rc != 0 ? rc : freed;
}

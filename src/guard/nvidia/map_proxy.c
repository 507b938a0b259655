/*
 * Mapping memory by UVM, made by the supervisor (VGPU_GUARD_MAP=supervisor).
 *
 * In the program the driver reads the call again, and a second thread can have put the handle of
 * other memory there: what stays mapped after its free would be in nobody's figure. But UVM takes a
 * duplicate of the memory, and the driver lets it do so only where the process that calls is the
 * one that has made the client (client_resource.c). So the memory is duplicated into a client of
 * the supervisor's own first, which the program's client allows that one and nobody else
 * (RM_ESC_SHARE), is mapped by that name, and let go of: UVM's duplicate stays.
 */
#include "guard/guard_internal.h"

#include "base/err.h"
#include "account/vdev.h"
#include "guard/nvidia/rm.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEVICE_IDS   32u /* of the driver's */
#define DEVICE_WORDS 14u /* NV0080_ALLOC_PARAMETERS; the first is the id */

/* Another open file of the device that a file is of, wherever its node is. */
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

/* A device of the mapper's, if it is that card; else nothing is left of it. */
static bool try_device(struct map_proxy *map_proxy, uint32_t id, const char *uuid_text,
                       struct map_proxy_card *ret_card)
{
    uint32_t params[DEVICE_WORDS] = {id};
    struct map_proxy_card card = {.device = 0};
    char text[VGPU_UUID_LEN];
    uint8_t uuid[16];

    if (rm_alloc(map_proxy->fd, map_proxy->client, map_proxy->client, &card.device, RM_CLASS_DEVICE,
                 params, sizeof(params)) != RM_OK)
        return false;
    if (rm_alloc_subdevice(map_proxy->fd, map_proxy->client, card.device, &card.subdevice) ==
            RM_OK &&
        card_uuid(map_proxy->fd, map_proxy->client, card.subdevice, uuid) == 0) {
        vdev_uuid_text("GPU", uuid, text);
        if (strcmp(text, uuid_text) == 0) {
            *ret_card = card;
            return true;
        }
    }
    rm_free(map_proxy->fd, map_proxy->client, map_proxy->client, card.device);
    return false;
}

static int find_card(struct guard *guard, pid_t tid, unsigned vdev,
                     struct map_proxy_card **ret_card)
{
    struct map_proxy *map_proxy = &guard->map_proxy;
    struct map_proxy_card *card = &map_proxy->card[vdev];
    struct borrowed borrowed;

    *ret_card = card;
    if (card->device || card->missing)
        return card->device ? 0 : -ENODEV;
    borrow_gpus(guard, tid, &borrowed);
    for (uint32_t id = 0; id < DEVICE_IDS && !card->device; id++)
        try_device(map_proxy, id, guard->card[vdev].uuid_text, card);
    borrowed_close(&borrowed);
    card->missing = !card->device; /* not to be looked for each time */
    return card->device ? 0 : -ENODEV;
}

/* Pages of the program's own are made memory by a call that is not checked (RM_ESC_ALLOC_MEMORY):
 * the driver knows. */
static int parent_of(const struct guard *guard, const struct guard_file *ctl,
                     const struct uvm_map_external *map, uint32_t *ret_parent)
{
    struct rm_handle_info info = {.object = map->memory, .index = RM_HANDLE_PARENT};

    if (objects_parent(guard->objects, map->client, map->memory, ret_parent) == 0)
        return 0;
    if (rm_control(ctl->fd, map->client, map->client, RM_CTRL_CLIENT_GET_HANDLE_INFO, &info,
                   sizeof(info)) != RM_OK)
        return -ENOENT;
    *ret_parent = (uint32_t)info.result;
    return 0;
}

/* The driver wants the parent of a duplicate to be of the kind that the memory's is. */
static int find_parent(struct guard *guard, pid_t tid, const struct guard_file *ctl,
                       const struct uvm_map_external *map, uint32_t *ret_parent)
{
    uint32_t parent, class_id;
    struct map_proxy_card *card;
    unsigned vdev;

    if (parent_of(guard, ctl, map, &parent) < 0 ||
        objects_class(guard->objects, map->client, parent, &class_id) < 0)
        return -ENOENT;
    *ret_parent = guard->map_proxy.client;
    if (class_id != RM_CLASS_DEVICE && class_id != RM_CLASS_SUBDEVICE)
        return 0;
    if (card_of(guard, ctl, map->client, parent, &vdev) < 0 ||
        find_card(guard, tid, vdev, &card) < 0)
        return -ENODEV;
    *ret_parent = class_id == RM_CLASS_DEVICE ? card->device : card->subdevice;
    return 0;
}

/* The driver's status, or -errno. */
static int borrow(struct guard *guard, pid_t tid, const struct guard_file *ctl,
                  const struct uvm_map_external *map, uint32_t *ret_handle, uint32_t *ret_parent)
{
    struct map_proxy *map_proxy = &guard->map_proxy;
    int rc = begin(map_proxy, ctl);

    if (rc == 0)
        rc = find_parent(guard, tid, ctl, map, ret_parent);
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

int map_proxy_map(struct guard *guard, const struct trap *trap, const struct guard_process *process,
                  const struct guard_file *space, struct uvm_map_external *map)
{
    const struct guard_file *ctl = client_file(guard, map->client);
    struct map_proxy *map_proxy = &guard->map_proxy;
    struct uvm_map_external ours = *map;
    uint32_t parent;
    int rc;

    if (!ctl ||
        client_maker(guard, map->client) != process->owner) { /* as the driver would have it */
        map->status = ctl ? RM_ERR_INSUFFICIENT_PERMISSIONS : RM_ERR_INVALID_CLIENT;
        return 0;
    }
    rc = borrow(guard, trap->tid, ctl, map, &ours.memory, &parent);
    if (rc != RM_OK) {
        log_ratelimited(
            "guard: memory %#x of client %#x cannot be mapped by the supervisor: %s %#x",
            map->memory, map->client, rc < 0 ? "errno" : "status", (unsigned)(rc < 0 ? -rc : rc));
        map->status = rc < 0 ? RM_ERR_INSUFFICIENT_PERMISSIONS : (uint32_t)rc;
        return 0;
    }
    ours.client = map_proxy->client;
    ours.rm_fd = map_proxy->fd;
    if (!trap_valid(guard, trap))
        rc = -EINTR;
    else if (ioctl(space->fd, UVM_MAP_EXTERNAL_ALLOCATION, &ours) < 0)
        rc = err_last();
    if (rm_free(map_proxy->fd, map_proxy->client, parent, ours.memory) != RM_OK)
        log_ratelimited("guard: a duplicate of memory %#x of client %#x could not be freed: it "
                        "stays on the card as long as "
                        "vgpu runs",
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

/*
 * Memory that a file holds.
 *
 * The driver duplicates what a program exports into a client of its own, which keeps it for as long
 * as the file exists, whoever has that: a control device's, or a dma-buf. A duplicate that is made
 * of it later, by whoever has the file, is the importer's. NVML counts to a process what it
 * allocated or what came to be its own since: of several duplicates one is the owner, at first the
 * one that was allocated, and then the next; those that are not, and those of the driver's own
 * client, it counts to nobody.
 *
 * Here a file is a space (guard/track/objects.h) in which the number of a place is an address.
 * These calls are made by the guard, on its own duplicate of the file that they name, so that what
 * is noted has happened: a file's number in a call is the only thing in it that is the caller's,
 * and the driver does not ask who exports (it duplicates on its own account). What comes to be held
 * is noted before the call, so that there is room for it.
 *
 * Memory that comes from a file of which the guard does not know what it holds is another
 * instance's or nobody's: it is charged to whoever has made it. In strict mode it is charged to who
 * imports it as well, for a program could have got it into the file unseen.
 */
#include "guard/guard_internal.h"

#include "base/err.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What is where in a space: what the file holds, and what it is about to. */
#define HELD   0u
#define COMING 1u

static int find_file(struct guard *guard, const struct trap *trap,
                     const struct guard_process *process, const struct rm_call *call,
                     struct exports *exports)
{
    bool dmabuf = call->kind == RM_KIND_DMABUF;
    int rc;

    if (dmabuf && exports->transfer.fd == -1) {
        exports->number = ++guard->next_file;
        return 0;
    }
    rc = file_get(guard, trap->tid, exports->transfer.fd, &exports->file);
    if (rc == -ESRCH || rc == -EPERM)
        return rc;
    if (rc < 0 || exports->file->kind != (dmabuf ? DEVICE_DMABUF : DEVICE_CTL))
        return RM_ERR_INVALID_PARAMETER;
    if (!exports->file->owner)
        exports->file->owner = process->owner;
    exports->number = exports->file->number;
    return 0;
}

static void forget_coming(struct guard *guard, const struct exports *exports)
{
    objects_unmap(guard->objects, exports->number, 0, UINT64_MAX, COMING);
    if (!exports->file)
        objects_space_gone(guard->objects, exports->number);
}

static int note_coming(struct guard *guard, const struct guard_process *process,
                       const struct rm_call *call, const struct exports *exports)
{
    const struct rm_transfer *transfer = &exports->transfer;
    const uint32_t coming = COMING;
    int rc = objects_space(guard->objects, exports->number, process->owner);

    /* While one of both lives the file may. */
    if (rc == 0 && exports->file)
        rc = objects_space(guard->objects, exports->number, exports->file->owner);
    for (unsigned i = 0; i < transfer->count && rc == 0; i++) {
        if (transfer->handle[i])
            rc = objects_map(guard->objects, exports->number, (uint64_t)transfer->first + i, 1,
                             &coming, 1, call->client, transfer->handle[i]);
    }
    if (rc < 0)
        forget_coming(guard, exports);
    return rc < 0 ? RM_ERR_NO_MEMORY : 0;
}

/* What was in those places is gone. There is room: one item is given back for each that is
 * taken. */
static void note_held(struct guard *guard, const struct rm_call *call,
                      const struct exports *exports)
{
    const struct rm_transfer *transfer = &exports->transfer;
    const uint32_t held = HELD;

    for (unsigned i = 0; i < transfer->count; i++) {
        uint64_t place = (uint64_t)transfer->first + i;

        objects_unmap(guard->objects, exports->number, place, 1, HELD);
        if (!transfer->handle[i])
            continue;
        objects_unmap(guard->objects, exports->number, place, 1, COMING);
        objects_map(guard->objects, exports->number, place, 1, &held, 1, call->client,
                    transfer->handle[i]);
    }
}

int exports_begin(struct guard *guard, const struct trap *trap, const struct guard_process *process,
                  const struct rm_call *call, void *data, size_t bytes, struct exports *ret_exports)
{
    int rc;

    ret_exports->file = NULL;
    if (decode_transfer(guard->branch, call, data, bytes, &ret_exports->transfer) < 0)
        return RM_ERR_INVALID_PARAMETER;
    /* Of a dma-buf the driver does not ask whose the client is. */
    if (call->kind == RM_KIND_DMABUF && !client_known(guard, call->client))
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    rc = find_file(guard, trap, process, call, ret_exports);
    if (rc == 0 && call->kind != RM_KIND_IMPORT)
        rc = note_coming(guard, process, call, ret_exports);
    if (rc == 0 && ret_exports->file)
        decode_set_fd(call, data, ret_exports->file->fd);
    return rc;
}

static uint32_t note_import(struct guard *guard, struct guard_process *process,
                            const struct guard_file *file, const struct rm_call *call,
                            const struct exports *exports, unsigned index)
{
    const struct rm_transfer *transfer = &exports->transfer;
    uint32_t handle = transfer->handle[index];
    uint64_t bytes;
    unsigned vdev;

    if (objects_dup_mapped(guard->objects, call->client, transfer->parent, handle, exports->number,
                           (uint64_t)transfer->first + index, HELD) < 0)
        return RM_ERR_NO_MEMORY;
    if (objects_memory(guard->objects, call->client, handle, &vdev, &bytes) == 0)
        return RM_OK;
    return account_foreign(guard, process, file, call, transfer->parent, handle);
}

/* What cannot be noted must not be: all that came is freed again. */
static void undo_imports(struct guard *guard, const struct guard_file *file,
                         const struct rm_call *call, const struct exports *exports)
{
    const struct rm_transfer *transfer = &exports->transfer;

    for (unsigned i = 0; i < transfer->count; i++) {
        if (!transfer->handle[i])
            continue;
        account_take_back(guard, file, call->client, transfer->parent, transfer->handle[i]);
    }
}

static uint32_t note_imports(struct guard *guard, struct guard_process *process,
                             const struct guard_file *file, const struct rm_call *call,
                             const struct exports *exports)
{
    uint32_t status = RM_OK;

    for (unsigned i = 0; i < exports->transfer.count && status == RM_OK; i++) {
        if (exports->transfer.handle[i])
            status = note_import(guard, process, file, call, exports, i);
    }
    if (status != RM_OK)
        undo_imports(guard, file, call, exports);
    return status;
}

/* The descriptor is ours: the caller gets one, too. Its number, or -errno: the file is closed. */
static int give(struct guard *guard, const struct trap *trap, const struct guard_process *process,
                int fd, struct exports *exports)
{
    struct seccomp_notif_addfd add = {
        .id = trap->id, .srcfd = (uint32_t)fd, .newfd_flags = O_CLOEXEC};
    int rc = file_add(guard, trap->tid, -1, fd, DEVICE_DMABUF, exports->number, &exports->file);

    if (rc < 0) {
        close(fd);
        return rc;
    }
    exports->file->owner = process->owner;
    rc = ioctl(guard->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    if (rc < 0) {
        rc = err_last();
        file_close(guard, exports->file);
        return rc;
    }
    exports->file->its_fd = rc;
    return rc;
}

int exports_end(struct guard *guard, const struct trap *trap, struct guard_process *process,
                const struct guard_file *file, const struct rm_call *call, void *data, size_t bytes,
                int status, struct exports *exports)
{
    int fd = exports->transfer.fd;

    if (status == RM_OK &&
        decode_transfer(guard->branch, call, data, bytes, &exports->transfer) < 0)
        status = RM_ERR_INVALID_PARAMETER;
    if (status == RM_OK && call->kind == RM_KIND_IMPORT) {
        status = (int)note_imports(guard, process, file, call, exports);
    } else if (status == RM_OK) {
        note_held(guard, call, exports);
        if (!exports->file) {
            fd = give(guard, trap, process, exports->transfer.fd, exports);
            status = fd < 0 ? fd : RM_OK;
            if (fd < 0)
                objects_space_gone(guard->objects, exports->number);
        }
    } else if (call->kind != RM_KIND_IMPORT) {
        forget_coming(guard, exports);
    }
    decode_set_fd(call, data, fd);
    return status;
}

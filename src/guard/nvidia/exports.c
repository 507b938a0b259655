/*
 * Memory that a file holds.
 *
 * The driver duplicates what a program exports into a client of its own, which keeps it for as long
 * as the file exists: a control device's, or a dma-buf. A process that has the file makes
 * duplicates of it, which are the importer's. NVML counts for a process what it allocated or has
 * come to own: of several duplicates one is the owner, at first the one that was allocated, and
 * then the next. It counts other duplicates, and those of the driver's own client, for no process.
 *
 * The guard makes these calls, on its own duplicate of the file that they name, so what is noted
 * has happened. Only the file's number in a call is the caller's, and the driver does not ask who
 * exports: it duplicates on its own account. What a file will hold is noted before the call, so
 * that there is room for it.
 *
 * If the guard does not know what a file holds, the memory is of no process here, and is charged to
 * its maker. In strict mode it is charged to the importer as well, for a program could have got it
 * into the file unseen.
 */
#include "guard/nvidia/request.h"

#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <unistd.h>

static int find_file(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    bool dmabuf = request->call.kind == RM_KIND_DMABUF;
    struct guard_file *file;
    int rc;

    if (dmabuf && request->transfer.fd == -1) {
        request->other_number = ++nvidia->notify->next_file;
        return 0;
    }
    rc = lifetime_file(nvidia, request->trap->tid, request->transfer.fd, &file);
    if (rc == -ESRCH || rc == -EPERM)
        return rc;
    if (rc < 0 || file->kind != (dmabuf ? DEVICE_DMABUF : DEVICE_CTL))
        return RM_ERR_INVALID_PARAMETER;
    if (!file->owner)
        file->owner = request->process->owner;
    request->other_file = file;
    request->other_number = file->number;
    return 0;
}

static void cancel(struct request *request)
{
    struct objects *objects = request->nvidia->objects;

    for (unsigned i = 0; i < request->transfer.count; i++)
        objects_file_cancel(objects, request->other_number, request->transfer.first + i);
    if (!request->other_file)
        objects_file_gone(objects, request->other_number);
}

static int prepare(struct request *request)
{
    struct objects *objects = request->nvidia->objects;
    const struct rm_transfer *transfer = &request->transfer;
    int rc = objects_file(objects, request->other_number, request->process->owner);

    /* While one of both lives, the file may. */
    if (rc == 0 && request->other_file)
        rc = objects_file(objects, request->other_number, request->other_file->owner);
    for (unsigned i = 0; i < transfer->count && rc == 0; i++) {
        if (transfer->handle[i])
            rc = objects_file_prepare(objects, request->other_number, transfer->first + i,
                                      request->call.client, transfer->handle[i]);
    }
    if (rc < 0)
        cancel(request);
    return rc < 0 ? RM_ERR_NO_MEMORY : 0;
}

static void commit(struct request *request)
{
    for (unsigned i = 0; i < request->transfer.count; i++)
        objects_file_commit(request->nvidia->objects, request->other_number,
                            request->transfer.first + i);
}

int exports_begin(struct request *request, void *data, size_t bytes)
{
    const struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;
    int rc;

    request->other_file = NULL;
    if (decode_transfer(nvidia->branch, call, data, bytes, &request->transfer) < 0)
        return RM_ERR_INVALID_PARAMETER;
    /* For a dma-buf the driver does not ask whose the client is. */
    if (call->kind == RM_KIND_DMABUF && !clients_file(&nvidia->clients, call->client))
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    rc = find_file(request);
    if (rc == 0 && call->kind != RM_KIND_IMPORT)
        rc = prepare(request);
    if (rc == 0 && request->other_file)
        decode_set_fd(call, data, request->other_file->fd);
    return rc;
}

static uint32_t note_import(struct request *request, unsigned index)
{
    struct objects *objects = request->nvidia->objects;
    const struct rm_transfer *transfer = &request->transfer;
    uint32_t client = request->call.client, handle = transfer->handle[index];
    uint64_t bytes;
    unsigned vdev;

    if (objects_dup_held(objects, client, transfer->parent, handle, request->other_number,
                         transfer->first + index) < 0)
        return RM_ERR_NO_MEMORY;
    if (objects_memory(objects, client, handle, &vdev, &bytes) == 0)
        return RM_OK;
    return account_foreign(request, transfer->parent, handle);
}

/* What cannot be noted must not exist: all that came is freed again. */
static uint32_t note_imports(struct request *request)
{
    const struct rm_transfer *transfer = &request->transfer;
    uint32_t status = RM_OK;

    for (unsigned i = 0; i < transfer->count && status == RM_OK; i++) {
        if (transfer->handle[i])
            status = note_import(request, i);
    }
    for (unsigned i = 0; i < transfer->count && status != RM_OK; i++) {
        if (transfer->handle[i])
            account_take_back(request, transfer->parent, transfer->handle[i]);
    }
    return status;
}

/* The descriptor is ours: the caller gets one, too. Its number, or -errno: the file is closed. */
static int give(struct request *request, int fd)
{
    struct notify *notify = request->nvidia->notify;
    int rc = file_add(notify, request->trap->tid, -1, fd, DEVICE_DMABUF, request->other_number,
                      &request->other_file);

    if (rc < 0) {
        close(fd);
        return rc;
    }
    request->other_file->owner = request->process->owner;
    rc = trap_give(notify, request->trap, fd);
    if (rc < 0) {
        lifetime_close(request->nvidia, request->other_file);
        return rc;
    }
    request->other_file->its_fd = rc;
    return rc;
}

int exports_end(struct request *request, void *data, size_t bytes, int status)
{
    const struct rm_call *call = &request->call;
    int fd = request->transfer.fd;

    if (status == RM_OK &&
        decode_transfer(request->nvidia->branch, call, data, bytes, &request->transfer) < 0)
        status = RM_ERR_INVALID_PARAMETER;
    if (status == RM_OK && call->kind == RM_KIND_IMPORT) {
        status = (int)note_imports(request);
    } else if (status == RM_OK) {
        commit(request);
        if (!request->other_file) {
            fd = give(request, request->transfer.fd);
            status = fd < 0 ? fd : RM_OK;
            if (fd < 0)
                objects_file_gone(request->nvidia->objects, request->other_number);
        }
    } else if (call->kind != RM_KIND_IMPORT) {
        cancel(request);
    }
    decode_set_fd(call, data, fd);
    return status;
}

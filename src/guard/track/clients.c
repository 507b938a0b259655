#include "guard/guard_internal.h"

#include "guard/notify/ratelimit.h"

#include <errno.h>

static struct guard_client *find(struct guard *guard, uint32_t client)
{
    for (unsigned i = 0; i < guard->clients_high; i++) {
        if (guard->client[i].file && guard->client[i].client == client)
            return &guard->client[i];
    }
    return NULL;
}

static struct guard_client *free_entry(struct guard *guard)
{
    for (unsigned i = 0; i < GUARD_CLIENTS_MAX; i++) {
        if (guard->client[i].file)
            continue;
        if (i >= guard->clients_high)
            guard->clients_high = i + 1;
        return &guard->client[i];
    }
    return NULL;
}

int client_used(struct guard *guard, uint32_t client, const struct guard_file *file, uint32_t owner)
{
    struct guard_client *entry = find(guard, client);

    if (entry && entry->file != file->number) {
        /* The driver takes it through this file, so the other client of that name is gone. */
        objects_remove(guard->objects, client, client);
        client_gone(guard, client);
        entry = NULL;
    }
    if (!entry) {
        entry = free_entry(guard);
        if (!entry)
            return -ENOSPC;
        *entry = (struct guard_client){.client = client, .file = file->number, .owner = owner};
    }
    return objects_client(guard->objects, client, owner);
}

void client_gone(struct guard *guard, uint32_t client)
{
    struct guard_client *entry = find(guard, client);

    channels_remove_client(guard->channels, client);
    if (entry)
        *entry = (struct guard_client){0};
}

bool client_has_room(struct guard *guard, uint32_t client)
{
    return find(guard, client) || free_entry(guard);
}

struct guard_file *client_file(struct guard *guard, uint32_t client)
{
    const struct guard_client *entry = find(guard, client);

    for (unsigned i = 0; entry && i < guard->files_high; i++) {
        if (guard->file[i].fd >= 0 && guard->file[i].number == entry->file &&
            !guard->file[i].unreferenced)
            return &guard->file[i];
    }
    return NULL;
}

uint32_t client_maker(struct guard *guard, uint32_t client)
{
    const struct guard_client *entry = find(guard, client);

    return entry ? entry->owner : 0;
}

bool client_known(struct guard *guard, uint32_t client)
{
    return find(guard, client) != NULL;
}

int client_makes(struct guard *guard, const struct guard_file *file, pid_t pid)
{
    struct guard_maker *room = NULL;

    for (unsigned i = 0; i < guard->makers_high; i++) {
        struct guard_maker *maker = &guard->maker[i];

        if (maker->file == file->number && maker->pid == pid)
            return 0;
        if (!maker->file && !room)
            room = maker;
    }
    if (!room && guard->makers_high < GUARD_MAKERS_MAX)
        room = &guard->maker[guard->makers_high++];
    if (!room) {
        log_ratelimited("guard: a client is refused: more than %d processes have made some under "
                        "files that are still open",
                        GUARD_MAKERS_MAX);
        return -ENOSPC;
    }
    *room = (struct guard_maker){.file = file->number, .pid = pid};
    return 0;
}

bool client_made_by(const struct guard *guard, pid_t pid)
{
    for (unsigned i = 0; i < guard->makers_high; i++) {
        if (guard->maker[i].file && guard->maker[i].pid == pid)
            return true;
    }
    return false;
}

void clients_file_unseen(struct guard *guard, uint32_t file)
{
    for (unsigned i = 0; i < guard->clients_high; i++) {
        if (guard->client[i].file == file)
            channels_park(guard->channels, guard->client[i].client);
    }
}

void clients_file_seen(struct guard *guard, const struct guard_file *file)
{
    for (unsigned i = 0; i < guard->clients_high; i++) {
        if (guard->client[i].file == file->number)
            channels_unpark(guard->channels, guard->client[i].client, file->fd);
    }
}

void clients_file_gone(struct guard *guard, uint32_t file)
{
    for (unsigned i = 0; i < guard->makers_high; i++) {
        if (guard->maker[i].file == file)
            guard->maker[i] = (struct guard_maker){0};
    }
    for (unsigned i = 0; i < guard->clients_high; i++) {
        uint32_t client = guard->client[i].client;

        if (guard->client[i].file != file)
            continue;
        objects_remove(guard->objects, client, client);
        client_gone(guard, client);
    }
}

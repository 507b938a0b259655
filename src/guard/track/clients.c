#include "guard/track/clients.h"

#include <errno.h>
#include <string.h>

/* CLIENTS_MAX: none. */
static unsigned find(const struct clients *clients, uint32_t client)
{
    for (unsigned i = 0; i < clients->high; i++) {
        if (clients->entry[i].file && clients->entry[i].client == client)
            return i;
    }
    return CLIENTS_MAX;
}

static unsigned find_free(const struct clients *clients)
{
    unsigned i = 0;

    while (i < CLIENTS_MAX && clients->entry[i].file)
        i++;
    return i;
}

uint32_t clients_file(const struct clients *clients, uint32_t client)
{
    unsigned i = find(clients, client);

    return i < CLIENTS_MAX ? clients->entry[i].file : 0;
}

uint32_t clients_owner(const struct clients *clients, uint32_t client)
{
    unsigned i = find(clients, client);

    return i < CLIENTS_MAX ? clients->entry[i].owner : 0;
}

bool clients_has_room(const struct clients *clients, uint32_t client)
{
    return find(clients, client) < CLIENTS_MAX || find_free(clients) < CLIENTS_MAX;
}

int clients_add(struct clients *clients, uint32_t client, uint32_t file, uint32_t owner)
{
    unsigned i = find_free(clients);

    if (i == CLIENTS_MAX)
        return -ENOSPC;
    clients->entry[i].client = client;
    clients->entry[i].file = file;
    clients->entry[i].owner = owner;
    if (i >= clients->high)
        clients->high = i + 1;
    return 0;
}

void clients_remove(struct clients *clients, uint32_t client)
{
    unsigned i = find(clients, client);

    if (i < CLIENTS_MAX)
        memset(&clients->entry[i], 0, sizeof(clients->entry[i]));
}

bool clients_next(const struct clients *clients, uint32_t file, unsigned *cursor,
                  uint32_t *ret_client)
{
    while (*cursor < clients->high) {
        unsigned i = (*cursor)++;

        if (clients->entry[i].file != file)
            continue;
        *ret_client = clients->entry[i].client;
        return true;
    }
    return false;
}

int clients_add_maker(struct clients *clients, uint32_t file, pid_t pid)
{
    unsigned room = MAKERS_MAX;

    for (unsigned i = 0; i < clients->makers_high; i++) {
        if (clients->maker[i].file == file && clients->maker[i].pid == pid)
            return 0;
        if (!clients->maker[i].file && room == MAKERS_MAX)
            room = i;
    }
    if (room == MAKERS_MAX && clients->makers_high < MAKERS_MAX)
        room = clients->makers_high++;
    if (room == MAKERS_MAX)
        return -ENOSPC;
    clients->maker[room].file = file;
    clients->maker[room].pid = pid;
    return 0;
}

bool clients_is_maker(const struct clients *clients, pid_t pid)
{
    for (unsigned i = 0; i < clients->makers_high; i++) {
        if (clients->maker[i].file && clients->maker[i].pid == pid)
            return true;
    }
    return false;
}

void clients_remove_makers(struct clients *clients, uint32_t file)
{
    for (unsigned i = 0; i < clients->makers_high; i++) {
        if (clients->maker[i].file == file)
            memset(&clients->maker[i], 0, sizeof(clients->maker[i]));
    }
}

/*
 * Which file a client of the driver was made under, and which processes may have made one. A table
 * of facts; one thread at a time.
 */
#ifndef VGPU_GUARD_CLIENTS_H
#define VGPU_GUARD_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLIENTS_MAX 4096
#define MAKERS_MAX  4096

struct clients {
    struct {
        uint32_t client, file; /* file: its number; 0: the entry is free */
        uint32_t owner;        /* the process that has used it first: the one that made it */
    } entry[CLIENTS_MAX];
    unsigned high; /* entries from here on were never used */
    /* Processes, dead or alive, that may have made a client under a file: the driver counts memory
     * by them (nvidia/audit.c). */
    struct {
        uint32_t file; /* its number; 0: the entry is free */
        pid_t pid;
    } maker[MAKERS_MAX];
    unsigned makers_high;
};

/* 0: the client is not known. */
uint32_t clients_file(const struct clients *clients, uint32_t client);
uint32_t clients_owner(const struct clients *clients, uint32_t client);

bool clients_has_room(const struct clients *clients, uint32_t client); /* or knows it */
int clients_add(struct clients *clients, uint32_t client, uint32_t file, uint32_t owner);
/* -ENOSPC */
void clients_remove(struct clients *clients, uint32_t client);

/* The clients of a file, one a call; *cursor is 0 at first. It may be removed before the next
 * call. */
bool clients_next(const struct clients *clients, uint32_t file, unsigned *cursor,
                  uint32_t *ret_client);

/* A process is about to make a client under the file: this is remembered for as long as the file
 * is. -ENOSPC. */
int clients_add_maker(struct clients *clients, uint32_t file, pid_t pid);
bool clients_is_maker(const struct clients *clients, pid_t pid);
void clients_remove_makers(struct clients *clients, uint32_t file);

#endif

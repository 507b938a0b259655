/*
 * The supervisor's descriptors. It needs some for each file, process and thread of the programs,
 * which decide how many there are. Without any left it could look at nothing.
 */
#ifndef VGPU_GUARD_DESCRIPTORS_H
#define VGPU_GUARD_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/resource.h>

struct descriptors {
    struct rlimit before; /* what the program gets */
    unsigned most;        /* of the supervisor's */
};

/* Raises the limit as far as it goes. */
void descriptors_init(struct descriptors *descriptors);
/* In the child, before exec. */
void descriptors_restore(const struct descriptors *descriptors);

/* How many threads may be remembered. */
unsigned descriptors_for_tasks(const struct descriptors *descriptors);
/* Whether enough are left for everything else, now that a file or a process has this one. */
bool descriptors_left(const struct descriptors *descriptors, int fd);
/* The same for a descriptor that is open for one call: files and processes leave some for calls. */
bool descriptors_left_for_call(const struct descriptors *descriptors, int fd);

#endif

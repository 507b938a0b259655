/*
 * The supervisor's descriptors. It needs some for each file, process and thread that it looks
 * after, and how many of those there are is up to the programs; without any left it could look at
 * nothing any more.
 */
#ifndef VGPU_GUARD_DESCRIPTORS_H
#define VGPU_GUARD_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/resource.h>

struct descriptors {
    struct rlimit before; /* what the program is to have */
    unsigned most;        /* of the supervisor's */
};

/* Raises the limit as far as it goes. */
void descriptors_init(struct descriptors *descriptors);
/* In the child, before exec. */
void descriptors_restore(const struct descriptors *descriptors);

/* So many threads may be remembered. */
unsigned descriptors_for_tasks(const struct descriptors *descriptors);
/* Whether enough are left for everything else, now that this one is made for a file or a
 * process. */
bool descriptors_left(const struct descriptors *descriptors, int fd);
/* The same for one that is had for a call only: there are some that files and processes do not
 * get. */
bool descriptors_left_for_call(const struct descriptors *descriptors, int fd);

#endif

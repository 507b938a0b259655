/* CUDA_VISIBLE_DEVICES as the driver is to find it in the environment, for the moment in which it
 * looks. */
#ifndef VGPU_HOOK_VISIBLE_H
#define VGPU_HOOK_VISIBLE_H

#include "account/visible.h"

/*
 * The variable as everybody in the process sees it, while the driver initialises. Changes neither
 * the program's string nor its array: a pointer is exchanged, and exchanged back by
 * visible_restore(). Callers exclude each other.
 */
struct visible_swap {
    char *ours;
    char *theirs; /* the program's entry; NULL: it has none, and the array was exchanged */
    char **array;
};
int visible_set(const char *value, struct visible_swap *ret_swap); /* -ENOMEM */
void visible_restore(const struct visible_swap *swap);

#endif

/* CUDA_VISIBLE_DEVICES as the driver finds it in the environment while it initialises. */
#ifndef VGPU_HOOK_LOADER_VISIBLE_H
#define VGPU_HOOK_LOADER_VISIBLE_H

#include "account/visible.h"

/*
 * Every thread of the process sees the variable so meanwhile. Neither the program's string nor its
 * array changes: visible_set() exchanges a pointer, and visible_restore() exchanges it back.
 * Callers exclude each other.
 */
struct visible_swap {
    char *ours;
    char *theirs; /* the program's entry; NULL: it has none, and the array was exchanged */
    char **array;
};
int visible_set(const char *value, struct visible_swap *ret_swap); /* -ENOMEM */
void visible_restore(const struct visible_swap *swap);

#endif

/*
 * CUDA_VISIBLE_DEVICES inside an instance that selects devices: what the program wrote, read relative to the instance,
 * becomes what the driver must read.
 */
#ifndef VGPU_HOOK_VISIBLE_H
#define VGPU_HOOK_VISIBLE_H

#include "region/region.h"

#include <stdbool.h>

#define VISIBLE_MAX (64 * VGPU_UUID_LEN) /* bytes that a translation may take */

/*
 * `text` is the variable's value (NULL: not set). An index or an unambiguous beginning of a UUID stands for a device of
 * `limits`; a MIG entry that names none of them is kept as it is; anything else ends the list, as in the driver.
 */
void visible_translate(const char *text, const struct vgpu_limits *limits, char ret_text[VISIBLE_MAX]);

/*
 * The variable as everybody in the process sees it, while the driver initialises. Changes neither the program's string
 * nor its array: a pointer is exchanged, and exchanged back by visible_restore(). Callers exclude each other.
 */
struct visible_swap {
    char *ours;
    char *theirs; /* the program's entry; NULL: it has none, and the array was exchanged */
    char **array;
};
int visible_set(const char *value, struct visible_swap *ret_swap); /* -ENOMEM */
void visible_restore(const struct visible_swap *swap);

#endif

#include "hook/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE VISIBLE_VARIABLE "="

/* The array that stands in for the program's where that has no entry. Kept: a thread may still be
 * reading it. */
static char **spare_array;
static size_t spare_entries;

static int swap_array(char *ours, struct visible_swap *ret_swap)
{
    size_t count = 0;

    while (environ && environ[count])
        count++;
    if (count + 2 > spare_entries) {
        char **array = malloc((count + 2) * sizeof(*array));

        if (!array)
            return -ENOMEM;
        spare_array = array; /* the smaller one is left behind, at most once for each size of the
                                environment */
        spare_entries = count + 2;
    }
    if (count > 0)
        memcpy(spare_array, environ, count * sizeof(*environ));
    spare_array[count] = ours;
    spare_array[count + 1] = NULL;
    *ret_swap = (struct visible_swap){.ours = ours, .theirs = NULL, .array = environ};
    __atomic_store_n(&environ, spare_array, __ATOMIC_RELEASE);
    return 0;
}

int visible_set(const char *value, struct visible_swap *ret_swap)
{
    static char entry[sizeof(VARIABLE) +
                      VISIBLE_MAX]; /* static: the driver may keep what getenv() gave it */

    memcpy(entry, VARIABLE, sizeof(VARIABLE));
    memcpy(entry + sizeof(VARIABLE) - 1, value, strnlen(value, VISIBLE_MAX - 1) + 1);
    for (char **slot = environ; slot && *slot; slot++) {
        if (strncmp(*slot, VARIABLE, sizeof(VARIABLE) - 1) != 0)
            continue;
        *ret_swap = (struct visible_swap){.ours = entry, .theirs = *slot, .array = NULL};
        __atomic_store_n(slot, entry, __ATOMIC_RELEASE);
        return 0;
    }
    return swap_array(entry, ret_swap);
}

void visible_restore(const struct visible_swap *swap)
{
    if (swap->array && environ == spare_array) {
        __atomic_store_n(&environ, swap->array, __ATOMIC_RELEASE);
        return;
    }
    /* Wherever a setenv() of another thread has copied it to; gone if that gave the variable
     * another value. */
    for (char **slot = environ; slot && *slot; slot++) {
        if (*slot != swap->ours)
            continue;
        if (swap->theirs)
            __atomic_store_n(slot, swap->theirs, __ATOMIC_RELEASE);
        for (; !swap->theirs && *slot; slot++)
            slot[0] = slot[1];
        return;
    }
}

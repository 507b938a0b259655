#include "hook/loader/visible.h"

#include "base/setting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The array in place of the program's, if that has no entry. Kept: a thread may still be reading
 * it. */
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
    /* Static: the driver may keep the pointer that getenv() returned. */
    static char entry[SETTING_NAME_BYTES + VISIBLE_MAX];
    size_t length =
        (size_t)snprintf(entry, SETTING_NAME_BYTES, "%s=", setting_name(SETTING_VISIBLE_DEVICES));

    snprintf(entry + length, VISIBLE_MAX, "%s", value);
    for (char **slot = environ; slot && *slot; slot++) {
        if (strncmp(*slot, entry, length) != 0)
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
    /* A setenv() of another thread may have copied it to another place, or given the variable
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

#include "hook/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "CUDA_VISIBLE_DEVICES="

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool read_index(const char *token, size_t length, unsigned *ret_index)
{
    unsigned index = 0;

    if (length == 0 || length > 4)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (token[i] < '0' || token[i] > '9')
            return false;
        index = index * 10 + (unsigned)(token[i] - '0');
    }
    *ret_index = index;
    return true;
}

/* The one device whose UUID begins with the token; NULL: none or several. */
static const char *match_uuid(const char *token, size_t length, const struct vgpu_limits *limits)
{
    const char *found = NULL;

    if (length <= 4 || length >= VGPU_UUID_LEN)
        return NULL;
    for (unsigned i = 0; i < limits->device_count; i++) {
        const char *uuid = limits->slice[i].uuid;

        if (strncmp(uuid, token, length) != 0)
            continue;
        if (found && strcmp(found, uuid) != 0)
            return NULL;
        found = uuid;
    }
    return found;
}

/* What the driver is to read for one entry; NULL: the entry is invalid and ends the list. */
static const char *translate_entry(const char *token, size_t length, const struct vgpu_limits *limits,
                                   size_t *ret_length)
{
    const char *uuid = NULL;
    unsigned index;

    if (read_index(token, length, &index)) {
        if (index < limits->device_count)
            uuid = limits->slice[index].uuid;
    } else if (length > 4 && (strncmp(token, "GPU-", 4) == 0 || strncmp(token, "MIG-", 4) == 0)) {
        uuid = match_uuid(token, length, limits);
        if (!uuid && token[0] == 'M') {
            *ret_length = length;
            return token;
        }
    }
    if (uuid)
        *ret_length = strnlen(uuid, VGPU_UUID_LEN);
    return uuid;
}

static bool append(char *text, size_t *used, const char *entry, size_t length)
{
    size_t comma = *used > 0;

    if (*used + comma + length + 1 > VISIBLE_MAX)
        return false;
    if (comma)
        text[(*used)++] = ',';
    memcpy(text + *used, entry, length);
    *used += length;
    return true;
}

void visible_translate(const char *text, const struct vgpu_limits *limits, char ret_text[VISIBLE_MAX])
{
    size_t used = 0;

    if (!text) {
        for (unsigned i = 0; i < limits->device_count; i++)
            if (!append(ret_text, &used, limits->slice[i].uuid, strnlen(limits->slice[i].uuid, VGPU_UUID_LEN)))
                break;
        ret_text[used] = '\0';
        return;
    }
    for (;;) {
        const char *end = strchrnul(text, ',');
        size_t length = (size_t)(end - text), entry_length = 0;
        const char *entry;

        while (length > 0 && is_space(*text)) {
            text++;
            length--;
        }
        while (length > 0 && is_space(text[length - 1]))
            length--;
        entry = translate_entry(text, length, limits, &entry_length);
        if (!entry || !append(ret_text, &used, entry, entry_length) || *end == '\0')
            break;
        text = end + 1;
    }
    ret_text[used] = '\0';
}

/* The array that stands in for the program's where that has no entry. Kept: a thread may still be reading it. */
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
        spare_array = array; /* the smaller one is left behind, at most once for each size of the environment */
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
    static char entry[sizeof(VARIABLE) + VISIBLE_MAX]; /* static: the driver may keep what getenv() gave it */

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
    /* Wherever a setenv() of another thread has copied it to; gone if that gave the variable another value. */
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

/* cuGetProcAddress: how programs find entry points. Answers are those of spec/versions.def. */
#include "sim.h"

#include <string.h>

struct version {
    const char *name;
    int since;
    int per_thread;
    void (*entry)(void);
};

#define VERSION(name, since, per_thread, symbol) extern void entry_##symbol(void) __asm__(#symbol);
#include "versions.def"
#undef VERSION

/* Sorted by name, then version. */
static const struct version versions[] = {
#define VERSION(name, since, per_thread, symbol) {#name, since, per_thread, entry_##symbol},
#include "versions.def"
#undef VERSION
};

enum { FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT };
enum { FLAG_LEGACY = 1, FLAG_PER_THREAD = 2 };

static int first_of(const char *name)
{
    int low = 0, high = (int)(sizeof(versions) / sizeof(versions[0]));

    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(versions[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int look_up(const char *name, int version, bool per_thread, void **ret_entry)
{
    int count = (int)(sizeof(versions) / sizeof(versions[0])), first = first_of(name), last = first;
    const struct version *best = NULL;
    bool twins = false, known = false;

    for (; last < count && !strcmp(versions[last].name, name); last++) {
        twins |= versions[last].per_thread != 0;
        known |= versions[last].since <= SIM_DRIVER_VERSION;
    }
    for (int at = first; at < last; at++) {
        const struct version *row = &versions[at];
        if (row->per_thread == (per_thread && twins) && row->since <= version &&
            (!best || row->since >= best->since))
            best = row;
    }
    *ret_entry = best ? (void *)best->entry : NULL;
    return best ? FOUND : known ? VERSION_NOT_SUFFICIENT : SYMBOL_NOT_FOUND;
}

static bool arguments_valid(const char *name, void **ret_entry, int version, uint64_t flags)
{
    return name && ret_entry && version <= SIM_DRIVER_VERSION &&
           flags <= (FLAG_LEGACY | FLAG_PER_THREAD);
}

API(cuGetProcAddress, const char *name, void **ret_entry, int version, uint64_t flags)
{
    void *entry;

    ENTER_EARLY(cuGetProcAddress);
    if (!arguments_valid(name, ret_entry, version, flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (look_up(name, version, flags & FLAG_PER_THREAD, &entry))
        return CUDA_ERROR_NOT_FOUND;
    *ret_entry = entry;
    return CUDA_SUCCESS;
}

/* Unlike the older version it succeeds, with a NULL entry, if it finds nothing. */
API(cuGetProcAddress_v2, const char *name, void **ret_entry, int version, uint64_t flags,
    CUdriverProcAddressQueryResult *ret_status)
{
    ENTER_EARLY(cuGetProcAddress_v2);
    if (!arguments_valid(name, ret_entry, version, flags))
        return CUDA_ERROR_INVALID_VALUE;
    int status = look_up(name, version, flags & FLAG_PER_THREAD, ret_entry);
    if (ret_status)
        *ret_status = status;
    return CUDA_SUCCESS;
}

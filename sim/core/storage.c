/* Values that the CUDA runtime keeps with a context, under keys of its own (see cuda/export.c). */
#include "sim.h"

#include <stdlib.h>

/* The pointer to the key's entry, or to the list's end. */
static struct sim_storage **find(struct sim_context *context, const void *key)
{
    struct sim_storage **link = &context->storage;

    while (*link && (*link)->key != key)
        link = &(*link)->next;
    return link;
}

int storage_put(struct sim_context *context, void *key, void *value, storage_gone *gone)
{
    int code = context_named(&context);
    if (code)
        return code;
    sim_lock();
    struct sim_storage **link = find(context, key);
    if (!*link)
        *link = calloc(1, sizeof(**link));
    if (*link) {
        (*link)->key = key;
        (*link)->value = value;
        (*link)->gone = gone;
    } else {
        code = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return code;
}

int storage_delete(struct sim_context *context, void *key)
{
    TRY(context_named(&context));
    sim_lock();
    struct sim_storage **link = find(context, key), *entry = *link;
    if (entry)
        *link = entry->next;
    sim_unlock();
    free(entry);
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int storage_get(void **ret_value, struct sim_context *context, void *key)
{
    if (!ret_value)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(context_named(&context));
    sim_lock();
    const struct sim_storage *entry = *find(context, key);
    if (entry)
        *ret_value = entry->value;
    sim_unlock();
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void storage_drop(struct sim_context *context)
{
    for (;;) {
        sim_lock();
        struct sim_storage *entry = context->storage;
        if (entry)
            context->storage = entry->next;
        sim_unlock();
        if (!entry)
            return;
        if (entry->gone)
            entry->gone(context, entry->key, entry->value);
        free(entry);
    }
}

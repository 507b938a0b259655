/* The process's page of the arena as the driver knows it, in each context. */
#include "hook/work/semaphore_internal.h"

#include "base/log.h"
#include "hook/work/capture.h"
#include "hook/loader/handlers.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#define REGISTER_MAPPED 2u

/* From here on the process shares the device as the driver does. Its page stays its own: streams
 * may wait for it. */
void semaphore_give_up(struct semaphore *semaphore, const char *why, int code)
{
    if (!atomic_exchange(&semaphore->joined, false))
        return;
    semaphore->failed = true;
    semaphore_stay_away(&semaphore->client);
    log_info("no turns for process %d: %s (error %d); it shares the device as the driver does",
             (int)getpid(), why, code);
}

/* Registers the page, in a context that launches while the device is contended for the
 * first time. */
static CUresult register_page(struct page_map *map)
{
    struct capture_mode mode = {.changed = false};
    CUresult result;

    capture_relax(&mode); /* in any case: another thread may begin a capture just now */
    result = DRIVER(cuMemHostRegister_v2)(map->page, ARENA_PAGE_BYTES, REGISTER_MAPPED);
    /* It may be registered from a context that vgpu thought had ended. */
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = DRIVER(cuMemHostGetDevicePointer_v2)(&map->address, map->page, 0);
    capture_leave(&mode);
    return result;
}

static const struct page_map *make_page_map(struct semaphore *semaphore, CUcontext context)
{
    struct page_map *map = NULL;
    CUresult result;

    for (unsigned i = 0; i < SEMAPHORE_CONTEXTS && !map; i++)
        if (!semaphore->maps[i].context)
            map = &semaphore->maps[i];
    if (map && !map->page)
        map->page = map == semaphore->maps
                        ? semaphore->client.page
                        : arena_page_again(semaphore->client.arena, semaphore->client.index);
    if (!map || !map->page) {
        semaphore_give_up(semaphore, "its page of the arena cannot be had for another context",
                          errno);
        return NULL;
    }
    result = register_page(map);
    if (result != CUDA_SUCCESS || !semaphore_start_helper(semaphore)) {
        semaphore_give_up(semaphore,
                          result != CUDA_SUCCESS ? "its page of the arena cannot be registered"
                                                 : "no thread",
                          result);
        return NULL;
    }
    map->context = context;
    return map;
}

const struct page_map *semaphore_page_map_of(struct semaphore *semaphore, CUcontext context)
{
    if (!atomic_load(&semaphore->joined))
        return NULL;
    for (unsigned i = 0; i < SEMAPHORE_CONTEXTS; i++)
        if (semaphore->maps[i].context == context)
            return &semaphore->maps[i];
    return make_page_map(semaphore, context);
}

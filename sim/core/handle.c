/* Keeps destroyed objects for a while, without their magic, to recognise stale handles. */
#include "sim.h"

#include <stdlib.h>

#define KEPT 4096

void handle_retire(void *object)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void *kept[KEPT];
    static unsigned next;

    *(unsigned *)object = 0;
    pthread_mutex_lock(&mutex);
    void *old = kept[next];
    kept[next] = object;
    next = (next + 1) % KEPT;
    pthread_mutex_unlock(&mutex);
    free(old);
}

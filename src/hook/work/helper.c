#include "hook/work/helper.h"

#include <pthread.h>
#include <signal.h>

#define HELPER_STACK (256U << 10)

/* A small stack is enough. If a program's thread-local variables do not fit into it, it is a usual
 * one. */
static bool helper_create(void *(*help)(void *arg), void *arg, pthread_t *ret_thread)
{
    pthread_attr_t attributes;
    bool created = false;

    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, HELPER_STACK);
        created = pthread_create(ret_thread, &attributes, help, arg) == 0;
        pthread_attr_destroy(&attributes);
    }
    return created || pthread_create(ret_thread, NULL, help, arg) == 0;
}

bool helper_start(void *(*help)(void *arg), void *arg)
{
    sigset_t all, before;
    pthread_t thread;
    bool created;

    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    created = helper_create(help, arg, &thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (created)
        pthread_detach(thread);
    return created;
}

/*
 * Functions that the C library kept in libdl and libpthread until glibc 2.34, found when they are
 * called.
 *
 * To link against those two libraries would load them into every process that loads this one, for
 * nothing. They are empty on today's systems. On older ones a user of the driver has loaded them
 * already: the driver needs both. So the definitions here, which nobody outside sees, stand in for
 * them. A program without such a function has no driver either: the call fails then as if resources
 * were short.
 *
 * Left out of sanitizer builds, whose runtimes must see these calls.
 */
#include "base/cleanup.h"
#include "hook/loader/elf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

/* Any thread may come first; all find the same. A function in front of the C library's is used: a
 * thread that a sanitizer has not seen made crashes in its first intercepted call. */
static void *find(void **found, const char *name)
{
    void *function = __atomic_load_n(found, __ATOMIC_RELAXED);

    KEEP_ERRNO;
    if (!function)
        function = elf_first_symbol(name);
    __atomic_store_n(found, function, __ATOMIC_RELAXED);
    return function;
}

#define LATE(type, name, params, args, without)                                                    \
    type name params                                                                               \
    {                                                                                              \
        static void *found;                                                                        \
        type(*function) params = find(&found, #name);                                              \
                                                                                                   \
        return function ? function args : (without);                                               \
    }

LATE(void *, dlopen, (const char *path, int flags), (path, flags), NULL)
LATE(int, dladdr, (const void *address, Dl_info *ret_info), (address, ret_info), 0)
LATE(int, pthread_create,
     (pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
      void *restrict arg),
     (thread, attributes, start, arg), EAGAIN)
LATE(int, pthread_detach, (pthread_t thread), (thread), EINVAL)
LATE(int, pthread_timedjoin_np,
     (pthread_t thread, void **ret_value, const struct timespec *deadline),
     (thread, ret_value, deadline), EINVAL)
LATE(int, pthread_attr_setstacksize, (pthread_attr_t * attributes, size_t bytes),
     (attributes, bytes), EINVAL)
LATE(int, pthread_sigmask, (int how, const sigset_t *restrict set, sigset_t *restrict old),
     (how, set, old), EAGAIN)

#include "guard/notify/bus.h"

#include "base/err.h"
#include "base/mutex.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define WATCHED_MAX 64

/* Written under `lock`, read by the handler. An entry counts while `base` is not 0, which is set
 * last. */
static struct watched {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    _Atomic(atomic_bool *) lost;
} watched[WATCHED_MAX];
static struct vgpu_mutex lock;
static uintptr_t page_bytes;

static bool replace(uintptr_t base, size_t bytes)
{
    return mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void handle(int signal, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    int saved = errno;
    bool done = false;

    (void)context;
    for (unsigned i = 0; i < WATCHED_MAX && !done && info->si_code == BUS_ADRERR; i++) {
        uintptr_t base = atomic_load(&watched[i].base);
        size_t bytes = atomic_load(&watched[i].bytes);

        if (!base || address < base || address - base >= bytes)
            continue;
        atomic_store(atomic_load(&watched[i].lost), true);
        done = replace(base, bytes);
    }
    if (!done && info->si_code == BUS_ADRERR)
        done = replace(address & ~(page_bytes - 1), page_bytes);
    if (!done) /* the signal comes again at once, and ends the process */
        sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    errno = saved;
}

int bus_handle(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};

    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) < 0 ? err_last() : 0;
}

int bus_watch(void *base, size_t bytes, atomic_bool *lost)
{
    MUTEX_SCOPE(&lock);
    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        if (atomic_load(&watched[i].base))
            continue;
        atomic_store(&watched[i].bytes, bytes);
        atomic_store(&watched[i].lost, lost);
        atomic_store(&watched[i].base, (uintptr_t)base);
        return 0;
    }
    return -ENOSPC;
}

void bus_forget(const void *base)
{
    MUTEX_SCOPE(&lock);
    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        if (atomic_load(&watched[i].base) == (uintptr_t)base)
            atomic_store(&watched[i].base, 0);
    }
}

#include "hook/nvml/mirror.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "account/hami.h"
#include "account/instance.h"
#include "hook/work/helper.h"
#include "hook/loader/hook.h"

#include <sys/prctl.h>
#include <time.h>

/* Dead processes are to leave the file within a second, whatever else the machine does. */
#define REFRESH_EVERY_NS (400 * NS_PER_MS)

static atomic_bool started;

static void *mirror_refresh(void *arg)
{
    const struct timespec pause = {.tv_nsec = REFRESH_EVERY_NS};

    bool lost = false;

    prctl(PR_SET_NAME, "vgpu-hami");
    for (;;) {
        nanosleep(&pause, NULL);
        hami_refresh(arg);
        lost = lost || instance_lost(ledger_region(arg));
    }
    return NULL;
}

static void mirror_in_child(void *arg)
{
    (void)arg;
    atomic_store(&started, false);
}

void mirror_start(void)
{
    KEEP_ERRNO;
    static struct fork_watch watch = {.child = mirror_in_child};
    static atomic_flag watched = ATOMIC_FLAG_INIT;
    struct vgpu_ledger *ledger = hook_ledger();

    if (!hami_mirrored(ledger) || atomic_exchange(&started, true))
        return;
    if (!atomic_flag_test_and_set(&watched))
        fork_watch_add(&watch);
    if (!helper_start(mirror_refresh, ledger))
        atomic_store(&started, false);
}

/*
 * cuInit: where the instance's devices become the program's.
 *
 * The driver reads CUDA_VISIBLE_DEVICES in here and numbers what it names. So an instance that selects devices needs
 * no translation of numbers afterwards: the variable is translated, for as long as the driver's call takes.
 */
#include "hook/device.h"

#include "base/cleanup.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/context.h"
#include "hook/mirror.h"
#include "hook/visible.h"

#include <stdlib.h>

/*
 * The environment as the instance means it: there while any thread is in the driver's cuInit. No lock is held across
 * that call, from within which the driver, or a thread of its, may come back here.
 */
static struct vgpu_mutex init_lock = VGPU_MUTEX_INIT;
static unsigned init_calls;           /* under the lock */
static struct visible_swap init_swap; /* under the lock */
static atomic_bool initialised;       /* the driver has succeeded once and does not read the variable again */

static void in_child(void *arg)
{
    (void)arg;
    mutex_init(&init_lock);
    init_calls = 0;
    atomic_store(&initialised, false); /* whatever the driver makes of it, it must not see other devices */
    context_forked();
}

static void watch_forks(void)
{
    static struct fork_watch watch = {.child = in_child};
    static atomic_flag watched = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&watched))
        fork_watch_add(&watch);
}

static bool translation_begins(const struct vgpu_limits *limits)
{
    CLEANUP_FREE char *text = malloc(VISIBLE_MAX);

    if (!text)
        return false;
    MUTEX_SCOPE(&init_lock);
    if (init_calls == 0) {
        visible_translate(getenv(VISIBLE_VARIABLE), limits, text);
        if (visible_set(text, &init_swap) < 0)
            return false;
    }
    init_calls++;
    return true;
}

static void translation_ends(void)
{
    MUTEX_SCOPE(&init_lock);
    if (--init_calls == 0)
        visible_restore(&init_swap);
}

static CUresult init_translated(enum hook_row row, unsigned int flags, const struct vgpu_limits *limits)
{
    CUresult result;

    if (!translation_begins(limits))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(row, init)(flags);
    translation_ends();
    return result;
}

CUresult hook_init(enum hook_row row, unsigned int flags)
{
    CLEANUP_FREE struct vgpu_limits *limits = NULL;
    struct vgpu_ledger *ledger;
    CUresult result;

    if (hook_attach_again() < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fork_check();
    ledger = hook_ledger();
    if (!ledger || atomic_load_explicit(&initialised, memory_order_acquire))
        return REAL(row, init)(flags);
    watch_forks();
    limits = malloc(sizeof(*limits));
    if (!limits)
        return CUDA_ERROR_OUT_OF_MEMORY;
    region_limits(ledger_region(ledger), limits);
    result = limits->device_count > 0 ? init_translated(row, flags, limits) : REAL(row, init)(flags);
    if (result != CUDA_SUCCESS)
        return result;
    if (device_table_build() == -ENODEV)
        return CUDA_ERROR_NO_DEVICE;
    atomic_store_explicit(&initialised, true, memory_order_release);
    mirror_start();
    return result;
}

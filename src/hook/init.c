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
#include "hook/visible.h"

#include <pthread.h>
#include <stdlib.h>

static struct vgpu_mutex init_lock = VGPU_MUTEX_INIT; /* of the environment while it is exchanged */
static _Atomic(pthread_t) init_owner;
static atomic_bool initialised; /* the driver has succeeded once and does not read the variable again */

static void in_child(void *arg)
{
    (void)arg;
    mutex_init(&init_lock);
    atomic_store(&init_owner, (pthread_t)0);
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

/*
 * The driver's cuInit with the variable as the instance means it. This lock is held across the driver's call, because
 * the environment is one; a call from within that one (a libcuda that passes on to another) goes straight through.
 */
static CUresult init_translated(enum hook_row row, unsigned int flags, const struct vgpu_limits *limits)
{
    CLEANUP_FREE char *text = malloc(VISIBLE_MAX);
    struct visible_swap swap;
    CUresult result;

    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (atomic_load(&init_owner) == pthread_self())
        return REAL(row, init)(flags);
    MUTEX_SCOPE(&init_lock);
    visible_translate(getenv("CUDA_VISIBLE_DEVICES"), limits, text);
    if (visible_set(text, &swap) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&init_owner, pthread_self());
    result = REAL(row, init)(flags);
    atomic_store(&init_owner, (pthread_t)0);
    visible_restore(&swap);
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
    return result;
}

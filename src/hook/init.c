/*
 * cuInit: the instance's devices become the program's.
 *
 * In here the driver reads CUDA_VISIBLE_DEVICES and numbers the devices that it names. So vgpu
 * translates the variable for as long as this call takes, and no number has to be translated
 * afterwards.
 */
#include "hook/loader/device.h"

#include "base/cleanup.h"
#include "base/forkwatch.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/setting.h"
#include "hook/memory/context.h"
#include "hook/nvml/mirror.h"
#include "hook/loader/visible.h"

#include <stdlib.h>
#include <string.h>

/* The environment as the instance means it, while any thread is in the driver's cuInit. No lock is
 * held across that call: the driver, or a thread of its own, may come back here from it. */
static struct vgpu_mutex init_lock = VGPU_MUTEX_INIT;
static unsigned init_calls;           /* under the lock */
static struct visible_swap init_swap; /* under the lock */
static atomic_bool
    initialised; /* the driver has succeeded once and does not read the variable again */

static void init_in_child(void *arg)
{
    (void)arg;
    mutex_init(&init_lock);
    init_calls = 0;
    atomic_store(&initialised, false); /* the driver must not see other devices in the child */
    context_forked();
}

static void watch_forks(void)
{
    static struct fork_watch watch = {.child = init_in_child};
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
        visible_translate(setting_raw(SETTING_VISIBLE_DEVICES), limits, text);
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

static CUresult init_translated(enum hook_symbol sym, unsigned int flags,
                                const struct vgpu_limits *limits)
{
    CUresult result;

    if (!translation_begins(limits))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(sym, init)(flags);
    translation_ends();
    return result;
}

/* A program that finds no device says little. The person who started it must know why. */
static void say_no_device(const struct vgpu_limits *limits)
{
    const char *variable = setting_raw(SETTING_VISIBLE_DEVICES);
    char uuid[VGPU_UUID_LEN];
    static atomic_bool told;

    /* "" and "-1" keep a program from the devices on purpose. */
    if ((variable && (*variable == '\0' || *variable == '-')) || atomic_exchange(&told, true))
        return;
    memcpy(uuid, limits->vdev[0].uuid, sizeof(uuid));
    uuid[sizeof(uuid) - 1] = '\0';
    if (limits->device_count > 0 && !variable)
        log_error("the driver shows none of the instance's devices (%s, %u in all): they are gone, "
                  "or its region is damaged; "
                  "cuInit returns 100",
                  uuid, limits->device_count);
    else if (limits->device_count > 0)
        log_error("CUDA_VISIBLE_DEVICES=%.64s names none of the instance's %u devices, numbered "
                  "from 0; cuInit returns 100",
                  variable, limits->device_count);
    else
        log_error("CUDA_VISIBLE_DEVICES=%.64s leaves no device that an instance can have, which "
                  "are the first %u; select "
                  "it with `vgpu run --gpu`; cuInit returns 100",
                  variable ? variable : "(not set)", VGPU_DEVICES_MAX);
}

CUresult hook_init(enum hook_symbol sym, unsigned int flags)
{
    CLEANUP_FREE struct vgpu_limits *limits = NULL;
    struct vgpu_ledger *ledger;
    CUresult result;

    if (hook_attach_again() < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fork_check();
    ledger = hook_ledger();
    if (!ledger || atomic_load_explicit(&initialised, memory_order_acquire))
        return REAL(sym, init)(flags);
    watch_forks();
    limits = malloc(sizeof(*limits));
    if (!limits)
        return CUDA_ERROR_OUT_OF_MEMORY;
    region_limits(ledger_region(ledger), limits);
    result =
        limits->device_count > 0 ? init_translated(sym, flags, limits) : REAL(sym, init)(flags);
    if (result == CUDA_SUCCESS && device_table_build() == -ENODEV)
        result = CUDA_ERROR_NO_DEVICE;
    else if (result == CUDA_ERROR_NO_DEVICE && limits->device_count == 0)
        return result; /* the driver's own */
    if (result == CUDA_ERROR_NO_DEVICE)
        say_no_device(limits);
    if (result != CUDA_SUCCESS)
        return result;
    atomic_store_explicit(&initialised, true, memory_order_release);
    mirror_start();
    return result;
}

#include "hook/loader/state.h"

#include "base/cleanup.h"
#include "base/nocancel.h"
#include "base/setting.h"
#include "account/instance.h"
#include "hook/loader/hook.h"
#include "hook/loader/trace.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

atomic_int hook_mode[LIBRARY_COUNT];

enum { ENVIRONMENT_UNREAD, ENVIRONMENT_NOTHING, ENVIRONMENT_TRACE, ENVIRONMENT_INSTANCE };
static atomic_int environment;
static atomic_bool environment_trace;

static atomic_bool attached;
static _Atomic(struct vgpu_ledger *) ledger;
static _Atomic(struct vgpu_region *) region;
static atomic_int failure;

struct vgpu_ledger *hook_ledger(void)
{
    return atomic_load_explicit(&ledger, memory_order_acquire);
}

struct vgpu_region *hook_region(void)
{
    return atomic_load_explicit(&region, memory_order_acquire);
}

static int attach_failure(void)
{
    return atomic_load_explicit(&failure, memory_order_relaxed);
}

static int read_environment(void)
{
    int found = atomic_load_explicit(&environment, memory_order_acquire);

    if (found == ENVIRONMENT_UNREAD) {
        bool trace = setting_text(SETTING_TRACE) != NULL;

        atomic_store(&environment_trace, trace);
        found = instance_configured() ? ENVIRONMENT_INSTANCE
                : trace               ? ENVIRONMENT_TRACE
                                      : ENVIRONMENT_NOTHING;
        atomic_store_explicit(&environment, found, memory_order_release);
    }
    return found;
}

bool hook_wanted(void)
{
    return read_environment() != ENVIRONMENT_NOTHING;
}

bool hook_trace_wanted(void)
{
    return hook_wanted() && atomic_load_explicit(&environment_trace, memory_order_relaxed);
}

/* No reader looks at ledger, region and failure before `attached` is set. */
static void attach_instance(void)
{
    struct vgpu_ledger *made;
    int result;

    if (read_environment() != ENVIRONMENT_INSTANCE)
        return;
    result = instance_attach(&made);
    if (result > 0) {
        atomic_store_explicit(&region, ledger_region(made), memory_order_release);
        atomic_store_explicit(&ledger, made, memory_order_release);
        result = 0;
    }
    atomic_store_explicit(&failure, result, memory_order_relaxed);
}

/* A lock that says which process holds it. If a thread of the parent was attaching at the moment of
 * a fork, the child takes over. It is held once in the life of a process, while it attaches. */
static atomic_int attach_owner;

static void attach_lock(void)
{
    const struct timespec pause = {.tv_nsec = 200000};
    int pid = (int)getpid();

    for (;;) {
        int owner = 0;

        if (atomic_compare_exchange_strong(&attach_owner, &owner, pid) ||
            (owner != pid && atomic_compare_exchange_strong(&attach_owner, &owner, pid)))
            return;
        if (owner == pid)
            nanosleep(&pause, NULL);
    }
}

/* A forked child inherits the outcome; the ledger takes a slot of its own there. */
static void attach(void)
{
    char folder[PATH_MAX];

    if (atomic_load_explicit(&attached, memory_order_acquire))
        return;
    attach_lock();
    if (!atomic_load_explicit(&attached, memory_order_relaxed)) {
        attach_instance();
        if (hook_trace_wanted())
            trace_start(instance_folder(folder, sizeof(folder)) == 0 ? folder : NULL);
        atomic_store_explicit(&attached, true, memory_order_release);
    }
    atomic_store(&attach_owner, 0);
}

int hook_attach_again(void)
{
    KEEP_ERRNO;

    if (attach_failure() == 0)
        return 0;
    attach_lock();
    if (attach_failure() < 0)
        attach_instance();
    atomic_store(&attach_owner, 0);
    return attach_failure();
}

enum hook_way hook_enter(int entry)
{
    enum symbols_library library = symbols_library_of(entry);
    int mode = atomic_load_explicit(&hook_mode[library], memory_order_acquire);
    NO_CANCEL;
    KEEP_ERRNO;

    if (mode < HOOK_ON) {
        bool wanted = hook_wanted(), loaded = symbols_resolve(library);

        if (!wanted)
            mode = HOOK_OFF;
        else if (!loaded)
            mode = HOOK_WANTED;
        else {
            attach();
            mode = hook_trace_wanted() ? HOOK_TRACED : HOOK_ON;
        }
        atomic_store_explicit(&hook_mode[library], mode, memory_order_release);
    }
    if (mode == HOOK_TRACED)
        trace_count(entry);
    if (!symbols_real(entry))
        return HOOK_MISSING;
    return mode >= HOOK_ON ? HOOK_HANDLER : HOOK_DRIVER;
}

CUresult hook_missing(enum hook_symbol sym)
{
    if (symbols_resolve(LIBRARY_CUDA))
        return CUDA_ERROR_NOT_SUPPORTED;
    return sym == SYMBOL_cuInit ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
}

nvmlReturn_t nvml_missing(void)
{
    return symbols_resolve(LIBRARY_NVML) ? NVML_ERROR_FUNCTION_NOT_FOUND
                                         : NVML_ERROR_LIBRARY_NOT_FOUND;
}

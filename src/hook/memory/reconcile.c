#include "hook/memory/reconcile.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/loader/device.h"
#include "hook/loader/nvml_driver.h"
#include "hook/loader/sources.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define AWAIT_BOUND_NS NS_PER_S
#define THREAD_STACK   (1U << 20) /* of address space; NVML keeps some buffers on it */
#define PROCESSES_MAX  1024       /* among which this process must be found */

/* The inode of the first PID namespace of a machine, a constant of the kernel. */
#define FIRST_PID_NAMESPACE "pid:[4026531836]"

enum opening { OPEN_NOT, OPEN_BEGUN, OPEN_DONE, OPEN_FAILED };

static struct device_watch {
    _Atomic uint32_t opening; /* enum opening; a futex */
    atomic_bool joinable;     /* `thread` is there for the thread that takes this */
    pthread_t thread;
    _Atomic(nvmlDevice_t) device; /* valid once opening is OPEN_DONE */
    _Atomic uint64_t last_ns;     /* when the last reconciliation began */
    struct vgpu_mutex adjusting;  /* two threads that adjust at once would both subtract the same */
    char uuid[VGPU_UUID_LEN];     /* written by the thread that set OPEN_BEGUN */
} watches[VGPU_DEVICES_MAX];

static _Atomic uint64_t frees_begun, frees_ended;

void reconcile_free_begin(void)
{
    atomic_fetch_add(&frees_begun, 1);
}

void reconcile_free_end(void)
{
    atomic_fetch_add(&frees_ended, 1);
}

/* How many frees have begun; UINT64_MAX: one is under way. The same number twice: nothing was freed
 * in between. */
static uint64_t reconcile_free_mark(void)
{
    uint64_t ended = atomic_load(&frees_ended); /* first: what ends meanwhile began before */
    uint64_t begun = atomic_load(&frees_begun);

    return begun == ended ? begun : UINT64_MAX;
}

/* The parent's threads are gone: what they were opening has to be opened again. */
static void reconcile_in_child(void *arg)
{
    (void)arg;
    atomic_store(&frees_begun, 0);
    atomic_store(&frees_ended, 0);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        uint32_t begun = OPEN_BEGUN;

        atomic_compare_exchange_strong(&watches[i].opening, &begun, OPEN_NOT);
        atomic_store(&watches[i].joinable, false);
        mutex_init(&watches[i].adjusting);
    }
}

static struct fork_watch fork_watch = {.child = reconcile_in_child};
static atomic_flag fork_watched = ATOMIC_FLAG_INIT;

static void reconcile_open(struct device_watch *watch)
{
    struct nvml_process one;
    enum opening outcome = OPEN_FAILED;
    nvmlDevice_t device;

    if (nvml_driver_open() == 0 && nvml_driver_handle(watch->uuid, &device) == 0) {
        atomic_store(&watch->device, device);
        nvml_driver_processes(device, &one, 1); /* the first question is slower than the rest */
        outcome = OPEN_DONE;
    }
    atomic_store(&watch->opening, outcome);
    futex_wake(&watch->opening, INT32_MAX, 0);
}

static void *open_in_thread(void *arg)
{
    reconcile_open(arg);
    return NULL;
}

/* The thread takes no signal of the program's. It is gone before the call that started it returns
 * to the program. */
static bool start_thread(struct device_watch *watch)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    bool started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&watch->thread, &attributes, open_in_thread, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (started)
        atomic_store(&watch->joinable, true);
    return started;
}

void reconcile_prepare(unsigned vdev)
{
    KEEP_ERRNO;
    struct device_watch *watch;
    uint32_t state;

    if (vdev >= VGPU_DEVICES_MAX)
        return;
    fork_check();
    watch = &watches[vdev];
    state = atomic_load(&watch->opening);
    if (state == OPEN_BEGUN || state == OPEN_DONE ||
        !atomic_compare_exchange_strong(&watch->opening, &state, OPEN_BEGUN))
        return;
    if (!atomic_flag_test_and_set(&fork_watched))
        fork_watch_add(&fork_watch);
    /*
     * The library is loaded here and not in the thread. A program may create its context inside of
     * a dlopen(): the thread would wait for the dynamic linker's lock, and this one for the thread.
     */
    if (device_vdev_uuid(vdev, watch->uuid) < 0 || nvml_driver_load() < 0) {
        atomic_store(&watch->opening, OPEN_FAILED);
        futex_wake(&watch->opening, INT32_MAX, 0);
        return;
    }
    if (!start_thread(watch))
        reconcile_open(watch);
}

static void reconcile_join(struct device_watch *watch)
{
    uint64_t until = clock_real_ns() + AWAIT_BOUND_NS;
    struct timespec deadline = {.tv_sec = (time_t)(until / NS_PER_S),
                                .tv_nsec = (long)(until % NS_PER_S)};

    if (pthread_timedjoin_np(watch->thread, NULL, &deadline) != 0)
        pthread_detach(watch->thread); /* the driver hangs; the thread ends with it */
}

void reconcile_await(unsigned vdev)
{
    KEEP_ERRNO;
    uint64_t until = clock_ns() + AWAIT_BOUND_NS, now;

    if (vdev >= VGPU_DEVICES_MAX)
        return;
    if (atomic_exchange(&watches[vdev].joinable, false)) {
        reconcile_join(&watches[vdev]);
        return;
    }
    while (atomic_load(&watches[vdev].opening) == OPEN_BEGUN && (now = clock_ns()) < until)
        futex_wait(&watches[vdev].opening, OPEN_BEGUN, until - now, 0);
}

static bool in_first_namespace(void)
{
    char name[64];
    ssize_t length = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);

    if (length <= 0)
        return false;
    name[length] = '\0';
    return strcmp(name, FIRST_PID_NAMESPACE) == 0;
}

/*
 * Whether the driver numbers processes as this process's namespace does. It does in the first
 * namespace. In another one it may give numbers of the first. Then the list contains this process's
 * number there, which is unknown here and names no process here, in all likelihood. So every number
 * must be one of this namespace.
 */
static bool numbers_are_ours(const struct nvml_process *processes, unsigned count)
{
    if (in_first_namespace())
        return true;
    for (unsigned i = 0; i < count; i++)
        if (processes[i].pid == 0 || (kill((pid_t)processes[i].pid, 0) < 0 && errno == ESRCH))
            return false;
    return true;
}

int reconcile_nvml_usage(unsigned vdev, uint64_t *ret_bytes)
{
    KEEP_ERRNO;
    CLEANUP_FREE struct nvml_process *processes = NULL;
    unsigned own = (unsigned)getpid(), found = 0;
    unsigned long long bytes = 0;
    int count;

    if (vdev >= VGPU_DEVICES_MAX || atomic_load(&watches[vdev].opening) != OPEN_DONE)
        return -ENODATA;
    processes = malloc(PROCESSES_MAX * sizeof(*processes));
    if (!processes)
        return -ENODATA;
    count = nvml_driver_processes(atomic_load(&watches[vdev].device), processes, PROCESSES_MAX);
    if (count <= 0)
        return -ENODATA;
    if (count > PROCESSES_MAX)
        count = PROCESSES_MAX;
    for (int i = 0; i < count; i++) {
        if (processes[i].pid != own)
            continue;
        bytes = processes[i].bytes;
        found++;
    }
    /* Twice the same number: another namespace has a process of this number. */
    if (found != 1 || bytes == NVML_VALUE_NOT_AVAILABLE ||
        !numbers_are_ours(processes, (unsigned)count))
        return -ENODATA;
    *ret_bytes = bytes;
    return 0;
}

/*
 * What NVML shows, and what the ledger accounts for at about the same time. The ledger has an
 * allocation before the driver makes it, and until the driver has freed it. So the larger of a look
 * before and a look after covers what is under way.
 */
static int reconcile_compare(struct vgpu_ledger *ledger, unsigned vdev, uint64_t *ret_nvml_bytes,
                             uint64_t *ret_accounted)
{
    uint64_t before = ledger_accounted_in_nvml(ledger, vdev), after, nvml_bytes;
    int rc = reconcile_nvml_usage(vdev, &nvml_bytes);

    if (rc < 0)
        return rc;
    after = ledger_accounted_in_nvml(ledger, vdev);
    *ret_nvml_bytes = nvml_bytes;
    *ret_accounted = before > after ? before : after;
    return 0;
}

/* What the ledger holds in kinds that NVML counts, without reservations. */
static uint64_t held_in_nvml(struct vgpu_ledger *ledger, unsigned vdev)
{
    uint64_t bytes = 0;

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (kind != VGPU_KIND_UNTRACKED && vgpu_kind_in_nvml(kind))
            bytes += ledger_held(ledger, vdev, kind);
    return bytes;
}

/*
 * Other threads have allocations under way. `least` takes these for theirs, although the driver may
 * not have made them yet; `most` takes them for the measured memory. Without any the two are equal.
 * Otherwise the reservation stands as far as it can be true: rather too much is charged than too
 * little. Frees under way make `most` too small.
 */
int reconcile_excess(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes,
                     uint64_t *ret_bytes)
{
    uint64_t mark, held, held_after, untracked, nvml_bytes, accounted, rest, least, most;
    int rc;

    sources_refresh(); /* memory that the driver freed on its own counts as freed from here */
    mark = reconcile_free_mark();
    held = held_in_nvml(ledger, vdev);
    rc = reconcile_compare(ledger, vdev, &nvml_bytes, &accounted);
    if (rc < 0)
        return rc;
    held_after = held_in_nvml(ledger, vdev);
    untracked = ledger_held(ledger, vdev, VGPU_KIND_UNTRACKED);
    rest = (accounted > reserved_bytes ? accounted - reserved_bytes : 0) + untracked;
    least = nvml_bytes > rest ? nvml_bytes - rest : 0;
    rest = (held < held_after ? held : held_after) + untracked;
    most = nvml_bytes > rest ? nvml_bytes - rest : 0;
    sources_refresh();
    if (mark == UINT64_MAX || reconcile_free_mark() != mark)
        most = UINT64_MAX;
    if (least < reserved_bytes)
        least = most < reserved_bytes ? most : reserved_bytes;
    *ret_bytes = least;
    return 0;
}

/*
 * UNTRACKED rises to what NVML shows beyond all that is held or reserved, and falls to what it
 * shows beyond what is held. Between the two lies what other threads have under way. NVML may not
 * show memory any more that the ledger still has, because it is being freed. So UNTRACKED falls
 * only if nothing was freed meanwhile.
 */
static int reconcile_adjust(struct vgpu_ledger *ledger, unsigned vdev)
{
    uint64_t before = ledger_held(ledger, vdev, VGPU_KIND_UNTRACKED);
    uint64_t mark, held, now, nvml_bytes, accounted, surely, at_most;
    int rc;

    sources_refresh();
    mark = reconcile_free_mark();
    held = held_in_nvml(ledger, vdev);
    rc = reconcile_compare(ledger, vdev, &nvml_bytes, &accounted);
    if (rc < 0)
        return rc;
    surely = nvml_bytes > accounted ? nvml_bytes - accounted : 0;
    at_most = nvml_bytes > held ? nvml_bytes - held : 0;
    now = ledger_held(ledger, vdev, VGPU_KIND_UNTRACKED);
    if (surely > now) {
        ledger_settle(ledger, vdev, VGPU_KIND_UNTRACKED, 0, (int64_t)(surely - now));
    } else if (before > at_most && mark != UINT64_MAX) {
        sources_refresh();
        if (reconcile_free_mark() == mark)
            ledger_settle(ledger, vdev, VGPU_KIND_UNTRACKED, 0, -(int64_t)(before - at_most));
    }
    return 0;
}

int reconcile_now(unsigned vdev)
{
    struct vgpu_ledger *ledger = hook_ledger();
    int rc;

    if (!ledger || vdev >= VGPU_DEVICES_MAX)
        return -ENODATA;
    /* Before its first context a process has no entry. In another namespace, an entry of its number
     * belongs to another process. */
    if (ledger_held(ledger, vdev, VGPU_KIND_CONTEXT) == 0 && !in_first_namespace())
        return -ENODATA;
    /* Another thread's adjustment may have begun before the change that the caller wants to see. So
     * wait, then look again. */
    mutex_lock(&watches[vdev].adjusting);
    atomic_store_explicit(&watches[vdev].last_ns, clock_ns(), memory_order_relaxed);
    rc = reconcile_adjust(ledger, vdev);
    mutex_unlock(&watches[vdev].adjusting);
    return rc;
}

void reconcile_maybe(unsigned vdev)
{
    uint64_t last, now;

    if (vdev >= VGPU_DEVICES_MAX ||
        atomic_load_explicit(&watches[vdev].opening, memory_order_relaxed) != OPEN_DONE)
        return;
    last = atomic_load_explicit(&watches[vdev].last_ns, memory_order_relaxed);
    now = clock_ns();
    if (now - last < RECONCILE_INTERVAL_NS ||
        !atomic_compare_exchange_strong_explicit(&watches[vdev].last_ns, &last, now,
                                                 memory_order_relaxed, memory_order_relaxed))
        return;
    reconcile_now(vdev);
}

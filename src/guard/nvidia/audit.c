/*
 * The audit: what NVML says the instance's processes hold on a card, against what is known of. The
 * driver counts the same objects, so more there than here is memory that was got around the
 * supervisor.
 *
 * NVML's figure is what a process has alone (memPrivate of the driver's) and what it owns of what
 * it shares (memSharedOwned), not what it has of others' (memSharedDuped). So memory is counted
 * once or not at all: the owner of several duplicates is at first who allocated it; when that one
 * frees it, another duplicate's, also one that UVM or a file holds, which is nobody's. Who is next
 * depends on the order in which duplicates were made of which; which process the guard charges
 * depends on their age alone. Therefore not processes are compared but the instance: the sum of the
 * figures can be at most the sum of all memory that some client has an object for
 * (objects_named()). Memory that was imported from another instance is in that, with the size that
 * the driver says: it is in the figure once its maker has freed it. What is held only by mappings
 * or files is not, so that nothing can be hidden behind it.
 *
 * Without a quota controls are not trapped, so it is not known what came by them, and nothing is
 * compared.
 */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/parse.h"
#include "guard/notify/ratelimit.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 1024
#define NVML_SUCCESS  0
#define UNKNOWN_BYTES UINT64_MAX
#define LOOKS         3
#define PAUSE_NS      100000000

/* nvml.h: nvmlProcessInfo_t of the functions with _v2 and _v3. */
struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct audit {
    void *library;
    bool begun;
    uint64_t blind_ns; /* since when NVML does not say what there is to know; 0: it does */
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **device);
    int (*processes)(void *device, unsigned *count, struct nvml_process *processes);
    int (*shutdown)(void);
    void *device[VGPU_DEVICES_MAX];
    struct nvml_process found[PROCESSES_MAX];
};

int audit_new(const char *nvml, struct audit **ret_audit)
{
    struct audit *audit = calloc(1, sizeof(*audit));

    if (!audit)
        return -ENOMEM;
    audit->library = dlopen(nvml, RTLD_NOW | RTLD_LOCAL);
    if (!audit->library) {
        free(audit);
        return -ENOENT;
    }
    *(void **)&audit->init = dlsym(audit->library, "nvmlInit_v2");
    *(void **)&audit->by_uuid = dlsym(audit->library, "nvmlDeviceGetHandleByUUID");
    *(void **)&audit->processes = dlsym(audit->library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&audit->shutdown = dlsym(audit->library, "nvmlShutdown");
    if (!audit->processes)
        *(void **)&audit->processes =
            dlsym(audit->library, "nvmlDeviceGetComputeRunningProcesses_v2");
    if (!audit->init || !audit->by_uuid || !audit->processes || !audit->shutdown) {
        audit_free(audit);
        return -EIO;
    }
    *ret_audit = audit;
    return 0;
}

int audit_begin(struct audit *audit)
{
    audit->begun = audit->init() == NVML_SUCCESS;
    return audit->begun ? 0 : -EIO;
}

void audit_free(struct audit *audit)
{
    if (!audit)
        return;
    if (audit->begun)
        audit->shutdown();
    dlclose(audit->library);
    free(audit);
}

/* The processes on a card; false: NVML does not say. */
static bool ask(struct audit *audit, const struct guard_card *card, unsigned vdev,
                unsigned *ret_count)
{
    unsigned count = PROCESSES_MAX;
    int rc;

    if (!audit->device[vdev] &&
        audit->by_uuid(card->uuid_text, &audit->device[vdev]) != NVML_SUCCESS)
        return false;
    rc = audit->processes(audit->device[vdev], &count, audit->found);
    *ret_count = count < PROCESSES_MAX ? count : PROCESSES_MAX;
    return rc == NVML_SUCCESS;
}

/* A comparison, and the process with the largest figure. */
struct finding {
    uint64_t used_bytes, known_bytes, most_bytes;
    unsigned pid;
};

/*
 * The driver counts memory by the number of who has made its client. That process may have ended,
 * and the client be used by others who have its file. (Its number can be another's by now, outside
 * of the instance: then the figure is of both, and says nothing.)
 */
static bool is_ours(struct guard *guard, pid_t pid)
{
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].guarded && guard->process[i].pid == pid)
            return true;
    }
    return client_made_by(guard, pid) && (!task_exists(pid) || task_descends(pid, getpid()));
}

/* Of the processes found. Whether they have more than is known of. */
static bool compare(const struct audit *audit, struct guard *guard, unsigned vdev, unsigned count,
                    struct finding *ret_finding)
{
    struct finding finding = {.known_bytes = objects_named(guard->objects, vdev)};

    for (unsigned i = 0; i < count; i++) {
        const struct nvml_process *found = &audit->found[i];

        if (found->used_bytes == UNKNOWN_BYTES || !is_ours(guard, (pid_t)found->pid))
            continue;
        finding.used_bytes += found->used_bytes;
        if (found->used_bytes >= finding.most_bytes) {
            finding.most_bytes = found->used_bytes;
            finding.pid = found->pid;
        }
    }
    *ret_finding = finding;
    return finding.used_bytes > finding.known_bytes;
}

/* Calls go on while NVML looks, unless the lock is held: it is for being sure. -EIO: NVML does not
 * say. */
static int look(struct audit *audit, struct guard *guard, unsigned vdev, bool sure,
                struct finding *ret_finding)
{
    unsigned count;

    if (!sure && !ask(audit, &guard->card[vdev], vdev, &count))
        return -EIO;
    MUTEX_SCOPE(&guard->lock);
    if (sure && !ask(audit, &guard->card[vdev], vdev, &count))
        return -EIO;
    return compare(audit, guard, vdev, count, ret_finding);
}

/* What a program closes, the driver may free a little later: a difference is one that stays. */
static int differs(struct audit *audit, struct guard *guard, unsigned vdev,
                   struct finding *ret_finding)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int rc = 1;

    for (unsigned i = 0; i < LOOKS && rc > 0; i++) {
        if (i)
            nanosleep(&pause, NULL);
        rc = look(audit, guard, vdev, i > 0, ret_finding);
    }
    return rc;
}

/* Whether NVML has not said anything for too long. */
static bool is_blind(struct audit *audit, bool answered)
{
    uint64_t now_ns = clock_ns();

    if (answered)
        audit->blind_ns = 0;
    else if (!audit->blind_ns)
        audit->blind_ns = now_ns;
    if (answered || now_ns - audit->blind_ns < GUARD_BLIND_NS)
        return false;
    log_ratelimited(
        "guard: NVML has not said what processes hold for %u s: nothing is compared meanwhile",
        (unsigned)(GUARD_BLIND_NS / NS_PER_S));
    return true;
}

static void tell(const struct guard *guard, unsigned vdev, const struct finding *finding)
{
    char used[SIZE_TEXT_BYTES], known[SIZE_TEXT_BYTES], most[SIZE_TEXT_BYTES];

    log_ratelimited("guard: the instance holds %s of %s, of which %s are accounted for: it has got "
                    "memory around the guard"
                    " (most of it has process %u: %s)",
                    format_bytes(finding->used_bytes, used, sizeof(used)),
                    guard->card[vdev].uuid_text,
                    format_bytes(finding->known_bytes, known, sizeof(known)), finding->pid,
                    format_bytes(finding->most_bytes, most, sizeof(most)));
}

bool audit_run(struct audit *audit, struct guard *guard)
{
    bool more = false, answered = true;

    for (unsigned i = 0; guard->audited && i < VGPU_DEVICES_MAX; i++) {
        struct finding finding;
        int rc;

        if (!guard->card[i].known)
            continue;
        rc = differs(audit, guard, i, &finding);
        answered = answered && rc >= 0;
        if (rc >= 0)
            atomic_fetch_add_explicit(&guard->audits, 1, memory_order_relaxed);
        if (rc <= 0)
            continue;
        atomic_fetch_add_explicit(&guard->differences, 1, memory_order_relaxed);
        tell(guard, i, &finding);
        more = true;
    }
    if (is_blind(audit, answered)) {
        atomic_fetch_add_explicit(&guard->differences, 1, memory_order_relaxed);
        more = true;
    }
    return more;
}

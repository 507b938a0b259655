/*
 * What NVML says that the instance's processes hold on a device, against what is accounted for. The
 * driver counts the same objects, so if it has more, a program got memory around the supervisor.
 *
 * NVML's figure for a process is what it has alone (memPrivate in the driver) and what it owns of
 * shared memory (memSharedOwned), but not what it has of others' (memSharedDuped). So memory is
 * counted once or not at all. Of several duplicates the one that was allocated is the owner at
 * first. When it is freed, another duplicate becomes the owner; that can be one that UVM or a file
 * holds, which counts for no process. Which one that is depends on the order of the duplicates; the
 * guard charges the oldest. So not processes are compared but the instance: the sum of the figures
 * is at most the sum of all memory that some client has an object for (objects_named()). Memory
 * that was imported from another instance is in that sum, with the size that the driver says: it
 * comes into the figure once its maker has freed it. Memory that only mappings or files hold is in
 * neither, so nothing can be hidden behind it.
 *
 * Without a quota controls are not trapped. Then memory that came by them is not known, and nothing
 * is compared.
 */
#include "guard/nvidia/audit.h"

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
#define TRIES         3
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
    uint64_t blind_ns; /* since when NVML does not answer; 0: it does */
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

/* The processes on a device; false: NVML does not answer. */
static bool ask(struct audit *audit, const struct guarded_device *device, unsigned vdev,
                unsigned *ret_count)
{
    unsigned count = PROCESSES_MAX;
    int rc;

    if (!audit->device[vdev] &&
        audit->by_uuid(device->uuid_text, &audit->device[vdev]) != NVML_SUCCESS)
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
 * The driver counts memory by the number of the process that has made the client. That process may
 * have ended while others use the client's file. Its number may be another process's by now,
 * outside of the instance: then the figure is of both, and says nothing.
 */
static bool is_ours(const struct nvidia *nvidia, pid_t pid)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (nvidia->notify->process[i].guarded && nvidia->notify->process[i].pid == pid)
            return true;
    }
    return clients_is_maker(&nvidia->clients, pid) &&
           (!task_exists(pid) || task_descends(pid, getpid()));
}

/* Whether the processes that NVML has found have more than is accounted for. */
static bool compare(const struct audit *audit, const struct nvidia *nvidia, unsigned vdev,
                    unsigned count, struct finding *ret_finding)
{
    struct finding finding = {.known_bytes = objects_named(nvidia->objects, vdev)};

    for (unsigned i = 0; i < count; i++) {
        const struct nvml_process *found = &audit->found[i];

        if (found->used_bytes == UNKNOWN_BYTES || !is_ours(nvidia, (pid_t)found->pid))
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

/* `sure`: with the lock, so that no call is made between NVML's answer and the comparison. -EIO:
 * NVML does not answer. */
static int compare_once(struct audit *audit, struct nvidia *nvidia, unsigned vdev, bool sure,
                        struct finding *ret_finding)
{
    unsigned count;

    if (!sure && !ask(audit, &nvidia->device[vdev], vdev, &count))
        return -EIO;
    MUTEX_SCOPE(&nvidia->notify->lock);
    if (sure && !ask(audit, &nvidia->device[vdev], vdev, &count))
        return -EIO;
    return compare(audit, nvidia, vdev, count, ret_finding);
}

/* The driver may free a little later what a program closes: only a difference that stays counts. */
static int differs(struct audit *audit, struct nvidia *nvidia, unsigned vdev,
                   struct finding *ret_finding)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int rc = 1;

    for (unsigned i = 0; i < TRIES && rc > 0; i++) {
        if (i)
            nanosleep(&pause, NULL);
        rc = compare_once(audit, nvidia, vdev, i > 0, ret_finding);
    }
    return rc;
}

/* Whether NVML has not answered for too long. */
static bool is_blind(struct audit *audit, bool answered)
{
    uint64_t now_ns = clock_ns();

    if (answered)
        audit->blind_ns = 0;
    else if (!audit->blind_ns)
        audit->blind_ns = now_ns;
    if (answered || now_ns - audit->blind_ns < BLIND_NS)
        return false;
    log_ratelimited(
        "guard: NVML has not said what processes hold for %u s: nothing is compared meanwhile",
        (unsigned)(BLIND_NS / NS_PER_S));
    return true;
}

static void report(const struct nvidia *nvidia, unsigned vdev, const struct finding *finding)
{
    char used[SIZE_TEXT_BYTES], known[SIZE_TEXT_BYTES], most[SIZE_TEXT_BYTES];

    log_ratelimited("guard: the instance holds %s of %s, of which %s are accounted for: it has got "
                    "memory around the guard"
                    " (most of it has process %u: %s)",
                    format_bytes(finding->used_bytes, used, sizeof(used)),
                    nvidia->device[vdev].uuid_text,
                    format_bytes(finding->known_bytes, known, sizeof(known)), finding->pid,
                    format_bytes(finding->most_bytes, most, sizeof(most)));
}

bool audit_run(struct audit *audit, struct nvidia *nvidia)
{
    bool more = false, answered = true;

    for (unsigned i = 0; nvidia->audited && i < VGPU_DEVICES_MAX; i++) {
        struct finding finding;
        int rc;

        if (!nvidia->device[i].known)
            continue;
        rc = differs(audit, nvidia, i, &finding);
        answered = answered && rc >= 0;
        if (rc >= 0)
            atomic_fetch_add_explicit(&nvidia->audits, 1, memory_order_relaxed);
        if (rc <= 0)
            continue;
        atomic_fetch_add_explicit(&nvidia->differences, 1, memory_order_relaxed);
        report(nvidia, i, &finding);
        more = true;
    }
    if (is_blind(audit, answered)) {
        atomic_fetch_add_explicit(&nvidia->differences, 1, memory_order_relaxed);
        more = true;
    }
    return more;
}

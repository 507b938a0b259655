#include "guard/guard.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/passfd.h"
#include "sched/usage.h"
#include "guard/notify/bus.h"
#include "guard/notify/control.h"
#include "guard/notify/control_thread.h"
#include "guard/notify/filter.h"
#include "guard/notify/keeper.h"
#include "guard/notify/leftover.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/privilege.h"
#include "guard/notify/trap.h"
#include "guard/notify/watch.h"
#include "guard/nvidia/audit.h"
#include "guard/nvidia/vdevs.h"
#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/nvidia.h"
#include "guard/nvidia/nvml.h"
#include "guard/nvidia/request.h"
#include "guard/nvidia/rounds.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define OURS   0 /* of the socket pair */
#define CHILDS 1

#define HANDOVER_BOUND_MS 10000
#define STUCK_MS          1000
#define GONE_MS           100
#define INTERRUPT         (SIGRTMAX - 1) /* ends the trap thread's wait; sent to that thread only */

struct guard {
    char region_path[4096], device_dir[4096];
    struct notify notify;
    struct nvidia nvidia;
    struct trap_server trap_server;
    struct watch watch;
    struct control_thread control;
    pthread_t trap_thread, watch_thread, control_thread;
    bool trapping, watching, controlling; /* the threads run */
    bool abandoned;                       /* the trap thread is stuck in a program's memory */
    int socket[2];                        /* the listener comes this way */
};

static const char *keep_text(char *buffer, size_t buffer_bytes, const char *text)
{
    if (!text || !*text)
        return NULL;
    snprintf(buffer, buffer_bytes, "%s", text);
    return buffer;
}

static int watch_region(struct guard *guard)
{
    size_t bytes;
    void *base;

    region_mapping(guard->notify.region, &base, &bytes);
    return bus_watch(base, bytes, &guard->notify.region_lost);
}

static void close_region(struct guard *guard)
{
    size_t bytes;
    void *base;

    if (!guard->notify.region)
        return;
    region_mapping(guard->notify.region, &base, &bytes);
    bus_forget(base);
    region_close(guard->notify.region);
}

static void free_guard(struct guard *guard)
{
    struct notify *notify = &guard->notify;
    struct nvidia *nvidia = &guard->nvidia;
    int *const fds[] = {&guard->socket[OURS], &guard->socket[CHILDS], &notify->epoll,
                        &notify->wake,        &nvidia->command,       &guard->control.socket};

    keeper_end(notify);
    processes_done(notify);
    audit_free(nvidia->audit);
    map_proxy_done(&nvidia->map_proxy);
    files_done(notify);
    tasks_done(&notify->tasks);
    objects_free(nvidia->objects);
    channels_free(nvidia->channels);
    close_region(guard);
    for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        cleanup_close(fds[i]);
    if (guard->abandoned) /* the trap thread still looks at `ending`, to answer its call */
        return;
    cleanup_close(&notify->listener);
    free(guard);
}

static bool has_quota(const struct vgpu_limits *limits)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (limits->vdev[i].quota_bytes || limits->vdev[i].quota_percent)
            return true;
    }
    return false;
}

static int listen_for_requests(struct guard *guard)
{
    char folder[sizeof(guard->region_path)];
    char *end;

    snprintf(folder, sizeof(folder), "%s", guard->region_path);
    end = strrchr(folder, '/');
    if (!end)
        return -EINVAL;
    *end = '\0';
    return control_listen(folder, &guard->control.socket);
}

/* Whether the guard can do without NVML. */
static int go_without(struct guard *guard, const char *why, const char *path)
{
    audit_free(guard->nvidia.audit);
    guard->nvidia.audit = NULL;
    if (guard->nvidia.strict) {
        log_error("guard: NVML cannot be used (%s%s): strict mode compares with its figures; give "
                  "its path in "
                  "VGPU_NVML",
                  path, why);
        return -ENOPKG;
    }
    log_warning("guard: NVML cannot be used (%s%s): what is accounted for is not compared with its "
                "figures; give its "
                "path in VGPU_NVML",
                path, why);
    return 0;
}

/* Before the program can put another library in its place. `given`: its path; NULL: the system's.
 */
static int load_nvml(struct guard *guard, const char *given)
{
    char path[4096];
    const char *why;

    if (nvml_find(given, path, sizeof(path), &why) < 0)
        return go_without(guard, why, path);
    return audit_new(path, &guard->nvidia.audit) < 0 ? go_without(guard, " does not load", path)
                                                     : 0;
}

static int begin_audit(struct guard *guard)
{
    return guard->nvidia.audit && audit_begin(guard->nvidia.audit) < 0
               ? go_without(guard, "it does not start", "")
               : 0;
}

static int open_notify(struct guard *guard)
{
    struct notify *notify = &guard->notify;
    int rc = bus_handle();

    if (rc == 0)
        rc = region_open(guard->region_path, 0, &notify->region);
    if (rc == 0)
        rc = watch_region(guard);
    if (rc < 0)
        return rc;
    notify->epoll = epoll_create1(EPOLL_CLOEXEC);
    notify->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (notify->epoll < 0 || notify->wake < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guard->socket) < 0 ||
        epoll_ctl(notify->epoll, EPOLL_CTL_ADD, notify->wake,
                  &(struct epoll_event){.events = EPOLLIN}) < 0)
        return err_last();
    return 0;
}

static int open_nvidia(struct guard *guard, const char *nvml)
{
    static const struct objects_classes classes = {.root = RM_CLASS_ROOT,
                                                   .device = RM_CLASS_DEVICE,
                                                   .subdevice = RM_CLASS_SUBDEVICE,
                                                   .memory = RM_CLASS_MEMORY_LOCAL_USER,
                                                   .unnamed = RM_CLASS_MEMORY_FABRIC};
    struct nvidia *nvidia = &guard->nvidia;
    int rc;

    nvidia->instance_id = usage_instance_id(guard->notify.region);
    if (nvidia->limits.tier != VGPU_TIER_GUARD)
        return -EINVAL;
    nvidia->audited = has_quota(&nvidia->limits) || nvidia->strict;
    rc = nvidia->audited ? load_nvml(guard, nvml) : 0;
    if (rc == 0)
        rc = objects_new(&classes, OBJECTS_LIMIT, &nvidia->objects);
    return rc < 0 ? rc : channels_new(&nvidia->channels);
}

static int open_parts(struct guard *guard, const char *nvml)
{
    int rc = branch_read(guard->notify.device_dir, &guard->nvidia.version, &guard->nvidia.branch);

    if (rc == 0)
        rc = files_init(&guard->notify);
    if (rc == 0)
        rc = open_notify(guard);
    if (rc == 0)
        rc = open_nvidia(guard, nvml);
    if (rc == 0)
        rc = listen_for_requests(guard);
    return rc < 0 ? rc : keeper_start(&guard->notify, channels_rescue, guard->nvidia.channels);
}

/* What is known before anything is opened. */
static void init(struct guard *guard, const struct guard_config *config)
{
    struct notify *notify = &guard->notify;
    struct nvidia *nvidia = &guard->nvidia;

    notify->region_path =
        keep_text(guard->region_path, sizeof(guard->region_path), config->region_path);
    notify->device_dir =
        keep_text(guard->device_dir, sizeof(guard->device_dir), config->device_dir);
    notify->listener = notify->epoll = notify->wake = -1;
    notify->unreferenced_epoll = notify->placeholder = -1;
    notify->keeper = -1;
    descriptors_init(&notify->descriptors);
    tasks_init(&notify->tasks, descriptors_for_tasks(&notify->descriptors));
    devices_init(&notify->devices, &nvidia_device_names, notify->device_dir);
    nvidia->notify = notify;
    nvidia->limits = *config->limits;
    nvidia->strict = config->mode == GUARD_STRICT;
    nvidia->maps = config->maps;
    nvidia->shares = config->shares;
    nvidia->command = guard->socket[OURS] = guard->socket[CHILDS] = -1;
    guard->trap_server =
        (struct trap_server){.notify = notify, .handle = nvidia_handle, .arg = nvidia};
    guard->watch = (struct watch){
        .notify = notify, .ended = lifetime_ended, .round = round_watch, .arg = nvidia};
    guard->control = (struct control_thread){.notify = notify,
                                             .socket = -1,
                                             .name = nvidia->limits.name,
                                             .pause = vdevs_pause,
                                             .round = round_control,
                                             .arg = nvidia};
}

int guard_new(const struct guard_config *config, struct guard **ret_guard)
{
    struct guard *guard = calloc(1, sizeof(*guard));
    char text[64];
    int rc;

    if (!guard)
        return -ENOMEM;
    /* Processes of the same user may not look into this one, or into those that are forked from it:
     * these have the listener. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    init(guard, config);
    rc = open_parts(guard, config->nvml && *config->nvml ? config->nvml : NULL);
    if (rc < 0) {
        if (rc != -ENOPKG) /* which has been said */
            log_error("guard: cannot be set up: %s", err_text(rc, text, sizeof(text)));
        free_guard(guard);
        return rc;
    }
    *ret_guard = guard;
    return 0;
}

static int receive_listener(struct guard *guard)
{
    struct pollfd ready = {.fd = guard->socket[OURS], .events = POLLIN};

    return poll(&ready, 1, HANDOVER_BOUND_MS) <= 0
               ? -ETIMEDOUT
               : passfd_receive(guard->socket[OURS], &guard->notify.listener);
}

int guard_child(struct guard *guard)
{
    char text[64], byte;
    ssize_t got;
    struct filter_calls calls;
    int listener, rc = privilege_drop_for_good();

    descriptors_restore(&guard->notify.descriptors);
    /* The supervisor has to look into it, now and as the program that it will be. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    close(guard->socket[OURS]);
    decode_filter(guard->nvidia.branch, guard->nvidia.audited || guard->nvidia.shares, &calls);
    listener = rc < 0 ? rc : filter_install(&calls);
    if (listener < 0) {
        log_error("guard: the command cannot be guarded: %s%s",
                  err_text(listener, text, sizeof(text)),
                  listener == -EBUSY ? " (it runs under another guard already)" : "");
        return listener;
    }
    rc = passfd_send(guard->socket[CHILDS], listener);
    close(listener);
    if (rc < 0)
        return rc;
    do
        got = read(guard->socket[CHILDS], &byte, 1);
    while (got < 0 && errno == EINTR);
    close(guard->socket[CHILDS]);
    return got == 1 ? 0 : -ECONNABORTED;
}

static pthread_t main_thread;

/* From anybody else it is a signal for the command, which the main thread passes on. */
static void interrupted(int signal, siginfo_t *info, void *context)
{
    int saved = errno;

    (void)context;
    if (info->si_code != SI_TKILL || info->si_pid != getpid())
        pthread_kill(main_thread, signal);
    errno = saved;
}

/* The guard's threads take no signals but the one that ends a wait, and their own faults. */
static int start_threads(struct guard *guard)
{
    struct sigaction action = {.sa_sigaction = interrupted, .sa_flags = SA_SIGINFO};
    sigset_t set, before;
    int rc;

    main_thread = pthread_self();
    sigemptyset(&action.sa_mask);
    sigaction(INTERRUPT, &action, NULL);
    sigfillset(&set);
    sigdelset(&set, SIGBUS); /* which is for a thread of ours (bus.h) */
    sigdelset(&set, INTERRUPT);
    pthread_sigmask(SIG_SETMASK, &set, &before);
    rc = -pthread_create(&guard->trap_thread, NULL, trap_serve, &guard->trap_server);
    sigaddset(&set, INTERRUPT);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    guard->trapping = rc == 0;
    if (rc == 0) {
        rc = -pthread_create(&guard->watch_thread, NULL, watch_serve, &guard->watch);
        guard->watching = rc == 0;
    }
    if (rc == 0) {
        rc = -pthread_create(&guard->control_thread, NULL, control_thread_serve, &guard->control);
        guard->controlling = rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Lets the child go on, which then execs. The second time it does nothing. */
static int release(struct guard *guard)
{
    char byte = 0;

    if (guard->socket[OURS] < 0)
        return 0;
    if (send(guard->socket[OURS], &byte, 1, MSG_NOSIGNAL) != 1)
        return err_last();
    cleanup_close(&guard->socket[OURS]);
    guard->socket[OURS] = -1;
    return 0;
}

int guard_start(struct guard *guard, pid_t child)
{
    char text[64];
    int fd CLEANUP_CLOSE = -1;
    int rc;

    guard->nvidia.command = pidfd_of(child, 0);
    if (guard->nvidia.command < 0)
        return err_last();
    close(guard->socket[CHILDS]);
    guard->socket[CHILDS] = -1;
    rc = receive_listener(guard);
    /* The right to look into it is asked for here rather than at the first call. */
    if (rc == 0)
        rc = task_file(&guard->notify.tasks, child, guard->notify.listener, &fd);
    if (rc == -EBADF)
        rc = 0;
    /*
     * NVML takes some 20 ms to start. The program need not wait for that, unless it could put files
     * where NVML looks for libraries. Its trapped calls wait in the kernel for the trap thread.
     * This thread is the only one here until then, so NVML and the audit are its own; starting the
     * watch thread hands them over.
     */
    if (rc == 0 && nvml_search_closed())
        rc = release(guard);
    if (rc == 0)
        rc = begin_audit(guard);
    if (rc == 0)
        rc = start_threads(guard);
    if (rc == 0)
        rc = release(guard);
    if (rc < 0 && rc != -ECHILD && rc != -ENOPKG) /* the child has said why */
        log_error("guard: the command cannot be served: %s", err_text(rc, text, sizeof(text)));
    cleanup_close(&guard->socket[OURS]);
    guard->socket[OURS] = -1;
    return rc;
}

/* False: the thread waits for a program's memory, where no signal reaches it; it ends with this
 * process. */
static bool end_trap_thread(struct guard *guard)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    /* A signal just before it waits is lost: until it has ended, again. */
    for (unsigned tries = 0; pthread_tryjoin_np(guard->trap_thread, NULL) == EBUSY; tries++) {
        if (tries >= STUCK_MS && !atomic_load(&guard->notify.acting))
            return false;
        pthread_kill(guard->trap_thread, INTERRUPT);
        nanosleep(&pause, NULL);
    }
    return true;
}

/* No quota would bind what the command leaves behind. */
static void end_orphans(struct guard *guard)
{
    unsigned count;

    {
        MUTEX_SCOPE(&guard->notify.lock);
        count = processes_kill(&guard->notify);
    }
    if (!trap_nobody_left(&guard->notify))
        count += leftovers_kill(&guard->notify, guard->nvidia.strict);
    if (count)
        log_warning("guard: the command has ended, and with it %u process%s that it has left "
                    "behind with GPU memory",
                    count, count == 1 ? "" : "es");
}

/* Processes that run on get ENOSYS for calls of the driver, and for shared, writable mappings of
 * any file that do not begin at its start. */
static void warn_of_others(const struct guard *guard)
{
    struct pollfd listener = {.fd = guard->notify.listener};

    /* What was killed takes a moment to be gone. */
    if (guard->notify.listener >= 0 && poll(&listener, 1, GONE_MS) == 0)
        log_warning(
            "guard: the command has ended, but not all that it has started: what runs on can use "
            "no GPU, and "
            "map files as shared and writable from their beginning only (else it gets ENOSYS)");
}

void guard_end(struct guard *guard)
{
    if (!guard)
        return;
    if (guard->trapping) {
        end_orphans(guard);
        warn_of_others(guard);
    }
    atomic_store(&guard->notify.ending, true);
    watch_wake(&guard->notify);
    if (guard->trapping)
        guard->abandoned = !end_trap_thread(guard);
    if (guard->watching)
        pthread_join(guard->watch_thread, NULL);
    if (guard->controlling)
        pthread_join(guard->control_thread, NULL);
    vdevs_done(&guard->nvidia);
    free_guard(guard);
}

void guard_report(const struct guard *guard, struct guard_report *ret_report)
{
    *ret_report =
        (struct guard_report){.traps = atomic_load(&guard->notify.traps),
                              .refusals = atomic_load(&guard->nvidia.refusals),
                              .audits = atomic_load(&guard->nvidia.audits),
                              .audit_differences = atomic_load(&guard->nvidia.differences),
                              .ended = atomic_load(&guard->nvidia.ended)};
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (guard->nvidia.device[i].share)
            ret_report->channel_switches += share_switches(guard->nvidia.device[i].share);
    }
}

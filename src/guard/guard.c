#include "guard/guard_internal.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/passfd.h"
#include "sched/usage.h"
#include "guard/notify/bus.h"
#include "guard/notify/control.h"
#include "guard/notify/filter.h"
#include "guard/nvidia/nvml.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/privilege.h"

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

    region_mapping(guard->region, &base, &bytes);
    return bus_watch(base, bytes, &guard->region_lost);
}

static void close_region(struct guard *guard)
{
    size_t bytes;
    void *base;

    if (!guard->region)
        return;
    region_mapping(guard->region, &base, &bytes);
    bus_forget(base);
    region_close(guard->region);
}

static void free_guard(struct guard *guard)
{
    int *const fds[] = {&guard->socket[OURS],  &guard->socket[CHILDS], &guard->listener,
                        &guard->epoll,         &guard->wake,           &guard->child,
                        &guard->control_socket};

    keeper_end(guard);
    processes_done(guard);
    audit_free(guard->audit);
    map_proxy_done(&guard->map_proxy);
    files_done(guard);
    tasks_done(&guard->tasks);
    objects_free(guard->objects);
    channels_free(guard->channels);
    close_region(guard);
    for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] != &guard->listener || !guard->abandoned)
            cleanup_close(fds[i]);
    }
    if (!guard->abandoned) /* which still looks at `ending`, to answer its call */
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

static int listen_to_people(struct guard *guard)
{
    char folder[sizeof(guard->region_path)];
    char *end;

    snprintf(folder, sizeof(folder), "%s", guard->region_path);
    end = strrchr(folder, '/');
    if (!end)
        return -EINVAL;
    *end = '\0';
    return control_listen(folder, &guard->control_socket);
}

/* Whether it is put up with that there is no NVML. */
static int go_without(struct guard *guard, const char *why, const char *path)
{
    audit_free(guard->audit);
    guard->audit = NULL;
    if (guard->config.mode == GUARD_STRICT) {
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

/* Before the program can put another in its place. */
static int load_nvml(struct guard *guard)
{
    char found[4096] = "libnvidia-ml.so.1";
    const char *path = guard->config.nvml;
    int rc = path ? 0 : nvml_find(found, sizeof(found));

    if (!path)
        path = found;
    if (rc < 0)
        return go_without(guard,
                          rc == -EPERM
                              ? " or a folder above it can be written to by others than root"
                              : " is in none of the system's folders",
                          path);
    return audit_new(path, &guard->audit) < 0 ? go_without(guard, " does not load", path) : 0;
}

static int begin_audit(struct guard *guard)
{
    return guard->audit && audit_begin(guard->audit) < 0
               ? go_without(guard, "it does not start", "")
               : 0;
}

static int open_parts(struct guard *guard)
{
    const struct objects_classes classes = {.root = RM_CLASS_ROOT,
                                            .device = RM_CLASS_DEVICE,
                                            .subdevice = RM_CLASS_SUBDEVICE,
                                            .memory = RM_CLASS_MEMORY_LOCAL_USER,
                                            .unnamed = RM_CLASS_MEMORY_FABRIC};
    int rc = branch_read(guard->config.device_dir, &guard->version, &guard->branch);

    if (rc == 0)
        rc = bus_handle();
    if (rc == 0)
        rc = region_open(guard->region_path, 0, &guard->region);
    if (rc == 0)
        rc = watch_region(guard);
    if (rc < 0)
        return rc;
    guard->limits = *guard->config.limits;
    guard->config.limits = &guard->limits;
    guard->instance_id = usage_instance_id(guard->region);
    if (guard->limits.tier != VGPU_TIER_GUARD)
        return -EINVAL;
    guard->audited = has_quota(&guard->limits) || guard->config.mode == GUARD_STRICT;
    rc = guard->audited ? load_nvml(guard) : 0;
    if (rc < 0)
        return rc;
    guard->control = guard->audited || guard->config.shares;
    rc = objects_new(&classes, OBJECTS_LIMIT, &guard->objects);
    if (rc == 0)
        rc = channels_new(&guard->channels);
    if (rc < 0)
        return rc;
    guard->epoll = epoll_create1(EPOLL_CLOEXEC);
    guard->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard->epoll < 0 || guard->wake < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guard->socket) < 0 ||
        epoll_ctl(guard->epoll, EPOLL_CTL_ADD, guard->wake,
                  &(struct epoll_event){.events = EPOLLIN}) < 0)
        return err_last();
    rc = listen_to_people(guard);
    return rc < 0 ? rc : keeper_start(guard);
}

int guard_new(const struct guard_config *config, struct guard **ret_guard)
{
    struct guard *guard = calloc(1, sizeof(*guard));
    char text[64];
    int rc;

    if (!guard)
        return -ENOMEM;
    /* Nobody of the same user may look into this process, or into those that are forked from it:
     * they have the listener. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    guard->config = *config;
    guard->config.region_path =
        keep_text(guard->region_path, sizeof(guard->region_path), config->region_path);
    guard->config.device_dir =
        keep_text(guard->device_dir, sizeof(guard->device_dir), config->device_dir);
    guard->config.nvml = keep_text(guard->nvml, sizeof(guard->nvml), config->nvml);
    guard->control_socket = -1;
    guard->child = guard->listener = guard->epoll = guard->wake = guard->socket[OURS] =
        guard->socket[CHILDS] = -1;
    guard->keeper = -1;
    descriptors_init(&guard->descriptors);
    tasks_init(&guard->tasks, descriptors_for_tasks(&guard->descriptors));
    devices_init(&guard->devices, guard->config.device_dir);
    rc = files_init(guard);
    if (rc == 0)
        rc = open_parts(guard);
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
               : passfd_receive(guard->socket[OURS], &guard->listener);
}

int guard_child(struct guard *guard)
{
    char text[64], byte;
    ssize_t got;
    struct filter_calls calls;
    int listener, rc = privilege_drop_for_good();

    descriptors_restore(&guard->descriptors);
    prctl(PR_SET_DUMPABLE, 1, 0, 0,
          0); /* the supervisor has to look into it, now and as the program that it will be */
    close(guard->socket[OURS]);
    decode_filter(guard->branch, guard->control, &calls);
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

/* Sent by anybody else it is a signal for the command, which the main thread passes on. */
static void interrupted(int signal, siginfo_t *info, void *context)
{
    int saved = errno;

    (void)context;
    if (info->si_code != SI_TKILL || info->si_pid != getpid())
        pthread_kill(main_thread, signal);
    errno = saved;
}

/* Threads of ours take no signals but the one that ends a wait, and their own faults. */
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
    rc = -pthread_create(&guard->trap_thread, NULL, trap_serve, guard);
    sigaddset(&set, INTERRUPT);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    guard->trapping = rc == 0;
    if (rc == 0) {
        rc = -pthread_create(&guard->watch_thread, NULL, watch_serve, guard);
        guard->watching = rc == 0;
    }
    if (rc == 0) {
        rc = -pthread_create(&guard->control_thread_thread, NULL, control_thread_serve, guard);
        guard->control_running = rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* The child goes on, and execs; it does so once. */
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

    guard->child = pidfd_of(child, 0);
    if (guard->child < 0)
        return err_last();
    close(guard->socket[CHILDS]);
    guard->socket[CHILDS] = -1;
    rc = receive_listener(guard);
    /* The right to look into it is asked for here rather than at the first call. */
    if (rc == 0)
        rc = task_file(&guard->tasks, child, guard->listener, &fd);
    if (rc == -EBADF)
        rc = 0;
    /*
     * NVML takes some 20 ms to start, and the program need not wait for that: calls of its own that
     * are trapped wait in the kernel until there is the trap thread. Until then this thread is the
     * only one here, so NVML and the audit are its own; starting the watch thread hands them over.
     * But what NVML loads meanwhile must be nothing of the program's.
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

/* False: a program keeps it in its memory, where no signal reaches it; it ends with this
 * process. */
static bool end_trap_thread(struct guard *guard)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    /* A signal just before it waits is lost: until it has ended, again. */
    for (unsigned tries = 0; pthread_tryjoin_np(guard->trap_thread, NULL) == EBUSY; tries++) {
        if (tries >= STUCK_MS && !atomic_load(&guard->acting))
            return false;
        pthread_kill(guard->trap_thread, INTERRUPT);
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Nobody would hold to the quota what the command leaves behind. */
static void end_orphans(struct guard *guard)
{
    unsigned count;

    {
        MUTEX_SCOPE(&guard->lock);
        count = processes_kill(guard);
    }
    if (!trap_nobody_left(guard))
        count += leftovers_kill(guard);
    if (count)
        log_warning("guard: the command has ended, and with it %u process%s that it has left "
                    "behind with GPU memory",
                    count, count == 1 ? "" : "es");
}

/* Their calls fail from now on, and mappings of whichever file if shared, writable and not from its
 * beginning. */
static void tell_of_others(const struct guard *guard)
{
    struct pollfd listener = {.fd = guard->listener};

    /* What was killed takes a moment to be gone. */
    if (guard->listener >= 0 && poll(&listener, 1, GONE_MS) == 0)
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
        tell_of_others(guard);
    }
    atomic_store(&guard->ending, true);
    watch_wake(guard);
    if (guard->trapping)
        guard->abandoned = !end_trap_thread(guard);
    if (guard->watching)
        pthread_join(guard->watch_thread, NULL);
    if (guard->control_running)
        pthread_join(guard->control_thread_thread, NULL);
    cards_done(guard);
    free_guard(guard);
}

void guard_report(const struct guard *guard, struct guard_report *ret_report)
{
    *ret_report = (struct guard_report){.traps = atomic_load(&guard->traps),
                                        .refusals = atomic_load(&guard->refusals),
                                        .audits = atomic_load(&guard->audits),
                                        .audit_differences = atomic_load(&guard->differences),
                                        .ended = atomic_load(&guard->ended)};
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (guard->card[i].share)
            ret_report->channel_switches += share_switches(guard->card[i].share);
    }
}

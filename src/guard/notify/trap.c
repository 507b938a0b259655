/* The trap thread takes calls that wait and answers them, one at a time, in the order in which they
 * come. */
#include "guard/notify/trap.h"

#include "base/err.h"
#include "base/log.h"
#include "guard/notify/privilege.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* The kernel says how large its structures are; ours may be smaller or larger. */
struct buffers {
    struct seccomp_notif *request;
    struct seccomp_notif_resp *response;
    size_t request_bytes, response_bytes;
};

static int make_buffers(struct buffers *ret_buffers)
{
    struct seccomp_notif_sizes sizes;
    struct buffers buffers = {0};

    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return err_last();
    buffers.request_bytes = sizes.seccomp_notif > sizeof(*buffers.request)
                                ? sizes.seccomp_notif
                                : sizeof(*buffers.request);
    buffers.response_bytes = sizes.seccomp_notif_resp > sizeof(*buffers.response)
                                 ? sizes.seccomp_notif_resp
                                 : sizeof(*buffers.response);
    buffers.request = calloc(1, buffers.request_bytes);
    buffers.response = calloc(1, buffers.response_bytes);
    if (!buffers.request || !buffers.response) {
        free(buffers.request);
        free(buffers.response);
        return -ENOMEM;
    }
    *ret_buffers = buffers;
    return 0;
}

bool trap_valid(const struct notify *notify, const struct trap *trap)
{
    uint64_t id = trap->id;

    return ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

int trap_give(const struct notify *notify, const struct trap *trap, int fd)
{
    struct seccomp_notif_addfd add = {
        .id = trap->id, .srcfd = (uint32_t)fd, .newfd_flags = O_CLOEXEC};
    int rc = ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

    return rc < 0 ? err_last() : rc;
}

bool trap_begin(struct notify *notify)
{
    mutex_lock(&notify->lock);
    atomic_store(&notify->acting, true);
    return !atomic_load(&notify->ending);
}

void trap_end(struct notify *notify)
{
    atomic_store(&notify->acting, false);
    mutex_unlock(&notify->lock);
}

static int handle(const struct trap_server *server, const struct seccomp_notif *request)
{
    const struct seccomp_data *data = &request->data;
    const bool is_mmap = data->nr == SYS_mmap;
    const struct trap trap = {.id = request->id,
                              .tid = (pid_t)request->pid,
                              .is_mmap = is_mmap,
                              .fd = (int)data->args[is_mmap ? 4 : 0],
                              .cmd = is_mmap ? 0 : (uint32_t)data->args[1],
                              .address = data->args[is_mmap ? 1 : 2]};

    /* A process of another PID namespace has no number here, so nothing of it can be read. */
    return trap.tid == 0 ? -ESRCH : server->handle(server->arg, &trap);
}

static void answer(struct notify *notify, const struct buffers *buffers, int result)
{
    memset(buffers->response, 0, buffers->response_bytes);
    buffers->response->id = buffers->request->id;
    if (result == TRAP_CONTINUE)
        buffers->response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        buffers->response->error = result;
    /* ENOENT: the caller was killed meanwhile. */
    if (ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_SEND, buffers->response) < 0 && errno != ENOENT)
        log_error("guard: a call could not be answered: %s", strerror(errno));
}

/* The kernel hands the caller's processor over with the call, and back with the answer. Without
 * that, each of them wakes another processor, which may sleep. */
static void ask_for_sync_wakeups(const struct notify *notify)
{
    if (ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
              (unsigned long)SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) < 0)
        log_info("guard: calls are answered slower than they could be: Linux 6.6 has synchronous "
                 "wake-ups");
}

bool trap_nobody_left(const struct notify *notify)
{
    struct pollfd listener = {.fd = notify->listener, .events = POLLIN};

    return listener.fd < 0 || (poll(&listener, 1, 0) > 0 && listener.revents & POLLHUP);
}

static bool receive(struct notify *notify, const struct buffers *buffers)
{
    memset(buffers->request, 0, buffers->request_bytes);
    while (ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_RECV, buffers->request) < 0) {
        /* ENOENT: the caller was killed meanwhile, or (since Linux 6.11) there is nobody left. */
        if (atomic_load(&notify->ending) || (errno != EINTR && errno != ENOENT) ||
            trap_nobody_left(notify))
            return false;
    }
    return !atomic_load(&notify->ending);
}

/* Calls from now on fail at once rather than wait. */
static void stop_listening(struct notify *notify)
{
    close(notify->listener);
    notify->listener = -1;
}

void *trap_serve(void *arg)
{
    const struct trap_server *server = arg;
    struct notify *notify = server->notify;
    struct buffers buffers = {0};
    int rc = privilege_drop();

    if (rc == 0)
        rc = make_buffers(&buffers);
    if (rc < 0) {
        log_error("guard: cannot answer calls: %s", strerror(-rc));
        stop_listening(notify);
        return NULL;
    }
    ask_for_sync_wakeups(notify);
    while (receive(notify, &buffers)) {
        int result = handle(server, buffers.request);

        atomic_fetch_add_explicit(&notify->traps, 1, memory_order_relaxed);
        if (result == -EPERM || result == -EACCES)
            log_ratelimited("guard: thread %ld may not be looked into (prctl(PR_SET_DUMPABLE), or "
                            "its executable cannot "
                            "be read): it can use no GPU, and map files as shared and writable "
                            "from their beginning only",
                            (long)buffers.request->pid);
        answer(notify, &buffers, result);
    }
    stop_listening(notify);
    free(buffers.request);
    free(buffers.response);
    return NULL;
}

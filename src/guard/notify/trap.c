/* The trap thread: takes calls that wait, has them looked at, and answers. One at a time, in the
 * order they come. */
#include "guard/guard_internal.h"

#include "base/err.h"
#include "base/log.h"
#include "guard/notify/privilege.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
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

/* The kernel says how large it has them; ours may be smaller or larger. */
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

bool trap_valid(const struct guard *guard, const struct trap *trap)
{
    uint64_t id = trap->id;

    return ioctl(guard->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool trap_begin(struct guard *guard)
{
    mutex_lock(&guard->lock);
    atomic_store(&guard->acting, true);
    return !atomic_load(&guard->ending);
}

void trap_end(struct guard *guard)
{
    atomic_store(&guard->acting, false);
    mutex_unlock(&guard->lock);
}

static bool is_uvm(uint32_t cmd)
{
    return cmd == UVM_MAP_EXTERNAL_ALLOCATION || cmd == UVM_FREE || cmd == UVM_UNMAP_EXTERNAL;
}

static int look_at(struct guard *guard, const struct seccomp_notif *request)
{
    const struct seccomp_data *data = &request->data;
    struct trap trap = {.id = request->id, .tid = (pid_t)request->pid};

    if (trap.tid == 0)
        return -ESRCH; /* of another PID namespace, which cannot be looked into */
    if (data->nr == SYS_mmap) {
        trap.fd = (int)data->args[4];
        trap.address = data->args[1];
        return uvm_mmap(guard, &trap);
    }
    trap.fd = (int)data->args[0];
    trap.cmd = (uint32_t)data->args[1];
    trap.address = data->args[2];
    return is_uvm(trap.cmd) ? uvm_call(guard, &trap) : call_rm(guard, &trap);
}

static void answer(struct guard *guard, const struct buffers *buffers, int result)
{
    memset(buffers->response, 0, buffers->response_bytes);
    buffers->response->id = buffers->request->id;
    if (result == TRAP_CONTINUE)
        buffers->response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        buffers->response->error = result;
    /* ENOENT: the caller was killed meanwhile. */
    if (ioctl(guard->listener, SECCOMP_IOCTL_NOTIF_SEND, buffers->response) < 0 && errno != ENOENT)
        log_error("guard: a call could not be answered: %s", strerror(errno));
}

/* The caller's processor is handed to us with its call, and back with the answer: without that it
 * costs the wake-up of another, which may sleep. */
static void ask_for_sync_wakeups(const struct guard *guard)
{
    if (ioctl(guard->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
              (unsigned long)SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) < 0)
        log_info("guard: calls are answered slower than they could be: Linux 6.6 has synchronous "
                 "wake-ups");
}

bool trap_nobody_left(const struct guard *guard)
{
    struct pollfd listener = {.fd = guard->listener, .events = POLLIN};

    return listener.fd < 0 || (poll(&listener, 1, 0) > 0 && listener.revents & POLLHUP);
}

static bool receive(struct guard *guard, const struct buffers *buffers)
{
    memset(buffers->request, 0, buffers->request_bytes);
    while (ioctl(guard->listener, SECCOMP_IOCTL_NOTIF_RECV, buffers->request) < 0) {
        /* ENOENT: the caller was killed meanwhile, or (since Linux 6.11) there is nobody left. */
        if (atomic_load(&guard->ending) || (errno != EINTR && errno != ENOENT) ||
            trap_nobody_left(guard))
            return false;
    }
    return !atomic_load(&guard->ending);
}

/* Whoever calls from now on fails at once rather than waits. */
static void stop_listening(struct guard *guard)
{
    close(guard->listener);
    guard->listener = -1;
}

void *trap_serve(void *arg)
{
    struct guard *guard = arg;
    struct buffers buffers = {0};
    int rc = privilege_drop();

    if (rc == 0)
        rc = make_buffers(&buffers);
    if (rc < 0) {
        log_error("guard: cannot answer calls: %s", strerror(-rc));
        stop_listening(guard);
        return NULL;
    }
    ask_for_sync_wakeups(guard);
    while (receive(guard, &buffers)) {
        int result = look_at(guard, buffers.request);

        atomic_fetch_add_explicit(&guard->traps, 1, memory_order_relaxed);
        if (result == -EPERM || result == -EACCES)
            log_ratelimited("guard: thread %ld may not be looked into (prctl(PR_SET_DUMPABLE), or "
                            "its executable cannot "
                            "be read): it can use no GPU, and map files as shared and writable "
                            "from their beginning only",
                            (long)buffers.request->pid);
        answer(guard, &buffers, result);
    }
    stop_listening(guard);
    free(buffers.request);
    free(buffers.response);
    return NULL;
}

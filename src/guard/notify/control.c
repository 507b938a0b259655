#include "guard/notify/control.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "guard/notify/pidfd.h"
#include "region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG   16
#define ANSWER_MS 1000

/* The headers may be older than the kernel: Linux 6.5. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* The name tells whether another instance's socket was put in this one's folder. */
struct question {
    uint32_t verb;
    char name[VGPU_NAME_LEN];
};

/* Through the folder's descriptor: an address has room for 107 bytes only. */
static struct sockaddr_un address_in(int folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder,
             CONTROL_SOCKET);
    return address;
}

int control_listen(const char *folder, int *ret_fd)
{
    int dir CLEANUP_CLOSE = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd CLEANUP_CLOSE = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;

    if (dir < 0 || fd < 0)
        return err_last();
    address = address_in(dir);
    if (unlinkat(dir, CONTROL_SOCKET, 0) < 0 && errno != ENOENT)
        return err_last();
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
        return err_last();
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* The number behind `key` in a text of /proc/PID/status. False: there is none. */
static bool number_in(const char *status, const char *key, unsigned long *ret_number)
{
    const char *line = strstr(status, key);

    if (!line)
        return false;
    *ret_number = strtoul(line + strlen(key), NULL, 10);
    return true;
}

static bool filters_of(const char *process, unsigned long *ret_filters,
                       unsigned long *ret_no_new_privs)
{
    char path[48], status[4096];
    size_t length;

    snprintf(path, sizeof(path), "/proc/%s/status", process);
    return file_read_small(path, status, sizeof(status), &length) == 0 &&
           number_in(status, "\nSeccomp_filters:", ret_filters) &&
           number_in(status, "\nNoNewPrivs:", ret_no_new_privs);
}

/* Whether a process runs under one more seccomp filter than this one, and so may be guarded. True
 * if that cannot be told. A filter is inherited, as no_new_privs is, and neither can be undone. */
static bool is_guarded(pid_t pid)
{
    unsigned long own, own_privs, filters, no_new_privs;
    char process[24];

    snprintf(process, sizeof(process), "%ld", (long)pid);
    if (!filters_of("self", &own, &own_privs) || !filters_of(process, &filters, &no_new_privs))
        return true;
    return no_new_privs && filters > own;
}

/* The process that has connected, or listens. It may have ended, and its number be another's: its
 * pidfd tells. */
static bool peer_is_guarded(int connection, const struct ucred *peer)
{
    int pidfd CLEANUP_CLOSE = -1;
    socklen_t length = sizeof(pidfd);

    /* A process of a PID namespace around ours; the supervisor has started none there. */
    if (peer->pid == 0)
        return false;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) < 0) {
        pidfd = -1;
        if (errno != ENOPROTOOPT) /* Linux 6.5 has it */
            return true;
    }
    return is_guarded(peer->pid) || (pidfd >= 0 && pidfd_signal(pidfd, 0) < 0);
}

static int peer_of(int connection, struct ucred *ret_peer)
{
    socklen_t length = sizeof(*ret_peer);

    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, ret_peer, &length) < 0 ? err_last() : 0;
}

static bool may_ask(int connection)
{
    struct ucred peer;

    return peer_of(connection, &peer) == 0 && (peer.uid == geteuid() || peer.uid == 0) &&
           !peer_is_guarded(connection, &peer);
}

static bool say(int connection, int rc)
{
    int32_t answer = rc;

    return send(connection, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(answer);
}

void control_answer(int connection, int rc)
{
    say(connection, rc);
    close(connection);
}

/* A process that has given up does not expect that anything happens. */
static bool still_waits(int connection)
{
    struct pollfd end = {.fd = connection, .events = 0};

    return poll(&end, 1, 0) == 0;
}

bool control_take(int listening, const char *name, int *ret_connection, enum control_verb *ret_verb)
{
    int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct pollfd ready = {.fd = connection, .events = POLLIN};
    struct question question;

    if (connection < 0)
        return false;
    if (!may_ask(connection)) {
        control_answer(connection, -EPERM);
        return false;
    }
    if (!say(connection, 0) || poll(&ready, 1, CONTROL_READ_MS) <= 0 ||
        recv(connection, &question, sizeof(question), 0) != sizeof(question) ||
        !still_waits(connection)) {
        close(connection);
        return false;
    }
    if (strncmp(question.name, name, sizeof(question.name)) != 0) {
        control_answer(connection, -ESTALE);
        return false;
    }
    if (question.verb != CONTROL_PAUSE && question.verb != CONTROL_RESUME) {
        control_answer(connection, -EINVAL);
        return false;
    }
    *ret_connection = connection;
    *ret_verb = (enum control_verb)question.verb;
    return true;
}

/* An answer, or -errno. */
static int hear(int connection)
{
    int32_t answer;
    ssize_t got = recv(connection, &answer, sizeof(answer), 0);

    if (got == sizeof(answer))
        return answer;
    return got >= 0 || errno == ECONNRESET ? -ECONNREFUSED
           : errno == EAGAIN               ? -ETIMEDOUT
                                           : err_last();
}

/* The first answer says whether the caller may ask. */
int control_ask(const char *folder, const char *name, enum control_verb verb)
{
    const struct timeval bound = {.tv_sec = ANSWER_MS / 1000, .tv_usec = ANSWER_MS % 1000 * 1000};
    int dir CLEANUP_CLOSE = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd CLEANUP_CLOSE = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    struct question question = {.verb = verb};
    struct ucred peer;
    int rc;

    if (dir < 0 || fd < 0)
        return err_last();
    address = address_in(dir);
    /* The queue of a stopped supervisor may be full. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound)) < 0)
        return err_last();
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return errno == ENOENT ? -ECONNREFUSED : errno == EAGAIN ? -ETIMEDOUT : err_last();
    snprintf(question.name, sizeof(question.name), "%s", name);
    rc = peer_of(fd, &peer);
    if (rc == 0 && peer_is_guarded(fd, &peer))
        rc = -EPROTO;
    if (rc == 0)
        rc = hear(fd);
    if (rc == 0 && send(fd, &question, sizeof(question), MSG_NOSIGNAL) < 0)
        rc = errno == EPIPE ? -ECONNREFUSED : err_last();
    return rc < 0 ? rc : hear(fd);
}

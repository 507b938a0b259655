/*
 * How people steer a running instance: over a socket in its folder, on which its supervisor
 * listens.
 *
 * Who may ask: root and the supervisor's own user, but for processes that the supervisor guards.
 * Those run under its seccomp filter, which they cannot take off, so the kernel tells them apart
 * (control_is_guarded()). A guarded program may remove the socket, for the folder is its user's;
 * then nobody reaches the supervisor, and the instance goes on. It may listen in its place: by the
 * same mark that is noticed. It may put another instance's socket there: the question has the
 * instance's name. What is not noticed is a process of the same user outside of the guard that a
 * program has got to answer for it.
 */
#ifndef VGPU_GUARD_CONTROL_H
#define VGPU_GUARD_CONTROL_H

#include <stdbool.h>
#include <sys/types.h>

#define CONTROL_SOCKET "control" /* the file, in the instance's folder */

enum control_verb {
    CONTROL_PAUSE =
        1, /* its work stands still where it is, between two instructions; its memory stays */
    CONTROL_RESUME = 2,
};

/* Listens in `folder`; what is left there of a supervisor that has died is replaced. -errno. */
int control_listen(const char *folder, int *ret_fd);

/*
 * Asks the supervisor of the instance in `folder`, and waits for its answer: 0: it is done; -EPERM:
 * the caller is guarded itself; -EPROTO: who listens there seems to be, so it is no supervisor (or
 * one in another container, with more filters than ours); -ESTALE: it is another instance's;
 * -EOPNOTSUPP: the instance cannot do that; -EIO: the channels could not be switched;
 * -ECONNREFUSED: there is no supervisor any more; -ETIMEDOUT: it has not answered for a second;
 * another -errno of the system.
 */
int control_ask(const char *folder, const char *name, enum control_verb verb);

/* For the supervisor. */

/*
 * Takes one question for the instance `name` from the listening socket, which is ready. True: there
 * is one, of somebody who may ask and still waits; to be answered. Waits for no longer than
 * CONTROL_READ_MS.
 */
#define CONTROL_READ_MS 100
bool control_take(int listening, const char *name, int *ret_connection,
                  enum control_verb *ret_verb);
void control_answer(int connection, int rc); /* 0 or -errno; closes it */

/* Whether a process runs under one more seccomp filter than this one, and so may be guarded. Where
 * it cannot be told, it is. */
bool control_is_guarded(pid_t pid);

#endif

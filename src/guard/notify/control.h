/*
 * `vgpu pause` and `vgpu resume`: over a socket in the instance's folder, on which its supervisor
 * listens.
 *
 * Root and the supervisor's own user may ask, but not the processes that the supervisor guards.
 * Those run under its seccomp filter, which they cannot take off, so the kernel tells them apart.
 * A guarded program can remove the socket, as the folder is its user's;
 * then nobody reaches the supervisor, and the instance goes on. If it listens there itself, the
 * same mark gives it away. If it puts another instance's socket there, the question has the wrong
 * instance's name. It is not noticed if a process of the same user outside of the guard answers for
 * it.
 */
#ifndef VGPU_GUARD_CONTROL_H
#define VGPU_GUARD_CONTROL_H

#include <stdbool.h>
#include <sys/types.h>

#define CONTROL_SOCKET "control" /* the file, in the instance's folder */

enum control_verb {
    CONTROL_PAUSE = 1, /* its work stands still between two instructions; its memory stays */
    CONTROL_RESUME = 2,
};

/* Listens in `folder`, and replaces what a dead supervisor left there. -errno. */
int control_listen(const char *folder, int *ret_fd);

/*
 * Asks the supervisor of the instance in `folder`, and waits for its answer. 0: done. -EPERM: the
 * caller is guarded itself. -EPROTO: the process that listens there seems to be guarded, so it is
 * no supervisor; or it is one in another container, with more filters than ours. -ESTALE: it is
 * another instance's. -EOPNOTSUPP: the instance cannot do that. -EIO: the channels could not be
 * switched. -ECONNREFUSED: there is no supervisor any more. -ETIMEDOUT: no answer within a second.
 * Another -errno of the system.
 */
int control_ask(const char *folder, const char *name, enum control_verb verb);

/* For the supervisor. */

/*
 * Takes one question for the instance `name` from the listening socket, which is ready. True:
 * somebody who may ask has asked and still waits; control_answer() is due. Waits for
 * CONTROL_READ_MS at most.
 */
#define CONTROL_READ_MS 100
bool control_take(int listening, const char *name, int *ret_connection,
                  enum control_verb *ret_verb);
void control_answer(int connection, int rc); /* 0 or -errno; closes it */

#endif

/*
 * Which processes live, by locks on bytes of the region's own file. An identity has two:
 *
 *   - Its life is a lock of an open file description (OFD, Linux 3.15) that nothing else uses,
 *     not even a mapping. The kernel drops it when the process dies or execs, but not when the
 *     program closes another descriptor of the file.
 *   - Its owner is a POSIX record lock, which tells the owner's pid in the PID namespace of the
 *     process that asks. It is lost when the process closes any descriptor of the file, so its
 *     absence proves nothing. The owner takes it again at its next call. A process opens each
 *     file once, for any number of regions.
 *
 * Fork. A child of fork() gets a description of its own before fork() returns there, so it does not
 * keep its parent's life. A child of vfork() or posix_spawn() closes it by exec. A child of a bare
 * clone(2) or _Fork() keeps it until it execs, ends or calls the library. A process that knows the
 * parent's pid can tell the difference (slot_alive()).
 *
 * If the program closes our descriptor, our locks are lost. The next call here opens the file again
 * and takes the locks that no other process has taken meanwhile. A kernel without OFD locks has
 * owners only.
 *
 * A user who may open the file may lock any byte of it, and so claim that an identity lives.
 */
#ifndef VGPU_REGION_LIVENESS_H
#define VGPU_REGION_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness;

/*
 * Opens the file at `path`, which must be a regular file (no symlink). -ENOENT, -EACCES, -EROFS,
 * -ELOOP ...; -EPROTO: not a regular file. Give it back with liveness_put(). *ret_fd is valid until
 * then, or until the program closes it: use it at once.
 */
int liveness_get(const char *path, struct liveness **ret_liveness, int *ret_fd);
void liveness_put(struct liveness *liveness);

/* Takes identity `id` for this process. -EBUSY: a process has it (this one too); -ENOLCK, -EBADF
 * ... from the system. */
int liveness_claim(struct liveness *liveness, unsigned id);
void liveness_drop(struct liveness *liveness, unsigned id);

/* Whether this process holds `id`, as far as it knows. */
bool liveness_holds(struct liveness *liveness, unsigned id);

/*
 * Whether a process has `id`: 1: alive, 0: dead, -errno: unknown. *ret_pid (may be NULL), with 1:
 * the pid in our PID namespace; 0: not visible there; -1: the owner's byte is lost.
 */
int liveness_check(struct liveness *liveness, unsigned id, pid_t *ret_pid);

/*
 * If the file has lost all its names: the path that it had, valid as long as `liveness`. No process
 * can open it by a name, and no call gives it a new one. NULL: it has a name, or that is unknown.
 */
const char *liveness_unlinked(struct liveness *liveness);

#endif

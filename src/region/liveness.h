/*
 * Who is alive, by locks on bytes of the region's own file. An identity has two:
 *
 *   - Its life is a lock of an open file description (OFD, Linux 3.15) that nobody else uses,
 * mappings included. The kernel drops it when the process dies or execs, and not when the program
 * closes another descriptor of the file.
 *   - Its owner is a POSIX record lock, which says who has it as the asker's PID namespace numbers
 * it. It goes with any descriptor of the file that the process closes, so nothing is concluded from
 * its absence. The owner takes it again when it next looks at itself. Each file is opened once a
 * process, whatever number of regions is made of it.
 *
 * Fork. A child of fork() gets a description of its own before fork() returns there, so that it
 * does not keep its parent's life. A child of vfork() or posix_spawn() closes it by exec. A child
 * of a bare clone(2) or _Fork() keeps it until it execs, ends or calls the library. Whoever knows
 * the parent's pid can tell (slot_alive()).
 *
 * Where the program closes our descriptor all the same, our locks are gone with it. The next call
 * here opens the file again and takes them again where nobody else has done so by then. A kernel
 * without OFD locks has the owners only.
 *
 * Anybody who may open the file may lock any byte of it, and so pass for an identity that is alive.
 */
#ifndef VGPU_REGION_LIVENESS_H
#define VGPU_REGION_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness;

/*
 * The open file behind `path`, which must be a regular file (no symlink). -ENOENT, -EACCES, -EROFS,
 * -ELOOP ...; -EPROTO: not a regular file. Give back with liveness_put(). *ret_fd is valid until
 * then, but only until somebody in the program closes it: use it at once.
 */
int liveness_get(const char *path, struct liveness **ret_liveness, int *ret_fd);
void liveness_put(struct liveness *liveness);

/* Takes identity `id` for this process. -EBUSY: somebody has it (this process too); -ENOLCK, -EBADF
 * ... from the system. */
int liveness_claim(struct liveness *liveness, unsigned id);
void liveness_drop(struct liveness *liveness, unsigned id);

/* Whether this process holds `id`, as far as it knows. */
bool liveness_holds(struct liveness *liveness, unsigned id);

/*
 * Whether somebody has `id`: 1 alive, 0 dead, -errno unknown. *ret_pid, with 1: as our PID
 * namespace numbers it, 0 where it is not visible, -1 where the owner's byte is gone. ret_pid may
 * be NULL.
 */
int liveness_check(struct liveness *liveness, unsigned id, pid_t *ret_pid);

/*
 * The path that the file had, for as long as `liveness`, if it has lost all its names: nobody can
 * open it by one then, and no call gives it a new one. NULL: it has names, or nobody knows.
 */
const char *liveness_unlinked(struct liveness *liveness);

#endif

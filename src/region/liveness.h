/*
 * Who is alive, by POSIX record locks on the region's own file, one byte per identity.
 *
 * The kernel drops such a lock when its process dies, execs, or closes any descriptor of the file, and says which
 * process holds one as the asker's PID namespace numbers it. A forked child holds none. Since closing any descriptor
 * of the file drops them all, each file is opened once per process, whatever number of regions is made of it; the
 * descriptor has a high number, out of the program's way.
 *
 * Where the program closes the descriptor all the same, our locks are gone with it. The next call here opens the file
 * again and takes them again where nobody else has done so by then.
 */
#ifndef VGPU_REGION_LIVENESS_H
#define VGPU_REGION_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness;

/*
 * The open file behind `path`, which must be a regular file (no symlink). -ENOENT, -EACCES, -EROFS, -ELOOP ...;
 * -EPROTO: not a regular file. Give back with liveness_put(). *ret_fd is valid until then, but only until somebody
 * in the program closes it: use it at once.
 */
int liveness_get(const char *path, struct liveness **ret_liveness, int *ret_fd);
void liveness_put(struct liveness *liveness);

/* Takes identity `id` for this process. -EBUSY: somebody has it (this process too); -ENOLCK, -EBADF ... from the
 * system. */
int liveness_claim(struct liveness *liveness, unsigned id);
void liveness_drop(struct liveness *liveness, unsigned id);

/* Whether this process holds `id`, as far as it knows. */
bool liveness_holds(struct liveness *liveness, unsigned id);

/*
 * Whether somebody has `id`: 1 alive (*ret_pid: as our PID namespace numbers it, 0 where it is not visible), 0 dead,
 * -errno unknown. ret_pid may be NULL.
 */
int liveness_check(struct liveness *liveness, unsigned id, pid_t *ret_pid);

#endif

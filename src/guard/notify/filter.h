/*
 * The seccomp filter of a guarded program: which of its system calls wait for the supervisor's
 * answer.
 *
 * Written out as BPF rather than through libseccomp: that one drops, without an error, a rule that
 * traps some ioctls where another allows all (2.5.4), and what is needed is one screen of
 * instructions.
 */
#ifndef VGPU_GUARD_FILTER_H
#define VGPU_GUARD_FILTER_H

#include "guard/nvidia/branch.h"

#include <stdbool.h>

/*
 * Installs the filter on the calling thread, and so on all that it starts from then on, for ever;
 * it must be the only thread. Sets no_new_privs. `control`: RM_CONTROL is trapped too (most of a
 * program's start consists of it). Returns the listener's descriptor (O_CLOEXEC); -errno: -EBUSY
 * where a listener is above us already, -EINVAL where the kernel is older than 5.19, -ENOSYS
 * without seccomp.
 */
int filter_install(const struct rm_branch *branch, bool control);

/* Whether the kernel can do what filter_install() needs; nothing is installed. 0 or -errno. */
int filter_supported(void);

#endif

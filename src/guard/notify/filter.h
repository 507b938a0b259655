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

#include <stdint.h>

#define FILTER_KEYS_MAX 16

/* The ioctls that matter to the guard, as the driver tells them apart. */
struct filter_calls {
    uint32_t whole[4]; /* trapped where the command is this word */
    unsigned whole_count;
    uint32_t refused; /* this command fails with EOPNOTSUPP */
    uint32_t mask;    /* trapped where the command and this are one of the keys */
    uint32_t key[FILTER_KEYS_MAX];
    unsigned key_count;
};

/*
 * Installs the filter on the calling thread, and so on all that it starts from then on, for ever;
 * it must be the only thread. Sets no_new_privs. Beside `calls` it traps shared, writable mappings
 * that do not begin at a file's start. Returns the listener's descriptor (O_CLOEXEC); -errno:
 * -EBUSY where a listener is above us already, -EINVAL where the kernel is older than 5.19, -ENOSYS
 * without seccomp.
 */
int filter_install(const struct filter_calls *calls);

/* Whether the kernel can do what filter_install() needs; nothing is installed. 0 or -errno. */
int filter_supported(void);

#endif

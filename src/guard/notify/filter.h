/*
 * The seccomp filter of a guarded program: which of its system calls wait for the supervisor's
 * answer.
 *
 * It is written as BPF, not through libseccomp. That drops, without an error, a rule that traps
 * some ioctls if another one allows all (2.5.4), and the filter is one screen of instructions.
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
 * Installs the filter on the calling thread, which must be the only one. It holds for all that the
 * thread starts, for ever. Sets no_new_privs. Beside `calls` it traps shared, writable mappings
 * that do not begin at a file's start. Returns the listener's descriptor (O_CLOEXEC). -EBUSY:
 * another listener is above this one; -EINVAL: the kernel is older than 5.19; -ENOSYS: it has no
 * seccomp; another -errno.
 */
int filter_install(const struct filter_calls *calls);

/* Whether the kernel can do what filter_install() needs; nothing is installed. 0 or -errno. */
int filter_supported(void);

#endif

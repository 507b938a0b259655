/*
 * Capabilities. The driver looks at those of the caller, at each call. With CAP_SYS_ADMIN it gives
 * out what programs should not have (all device memory in one mapping); with CAP_SYS_NICE a channel
 * can be put before others. With CAP_SYS_PTRACE a program could take the supervisor's descriptors,
 * or control it.
 */
#ifndef VGPU_GUARD_PRIVILEGE_H
#define VGPU_GUARD_PRIVILEGE_H

#include <sys/types.h>

/* The calling thread makes calls for programs: it gives the first two up, and CAP_PERFMON except as
 * by privilege_profile_as(). -errno. */
int privilege_drop(void);

/*
 * The calling thread makes a call for which it matters whether the program may profile. From now on
 * it has CAP_PERFMON, if it is permitted at all, exactly if the program's thread `tid` has it; 0:
 * not.
 */
void privilege_profile_as(pid_t tid);

/* The calling process is about to become the program: it and what it starts never have the three
 * again. -errno. */
int privilege_drop_for_good(void);

#endif

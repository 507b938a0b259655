/*
 * Capabilities. The driver looks at the caller's, at each call: with CAP_SYS_ADMIN it gives out
 * what is not for programs (all of a card's memory in one mapping), with CAP_SYS_NICE it lets
 * channels be put before others'. With CAP_SYS_PTRACE a program could take the supervisor's
 * descriptors, or make it do things.
 */
#ifndef VGPU_GUARD_PRIVILEGE_H
#define VGPU_GUARD_PRIVILEGE_H

#include <sys/types.h>

/* The calling thread makes calls for programs: it gives the first two up, and CAP_PERFMON but for
 * privilege_profile_as(). -errno. */
int privilege_drop(void);

/*
 * The calling thread makes a call for which it matters whether the program may profile:
 * CAP_PERFMON, if it has it at all, counts for it from now on as it does for the program's thread
 * `tid`; 0: for nobody.
 */
void privilege_profile_as(pid_t tid);

/* The calling process is about to be the program: it and what it starts never have them again.
 * -errno. */
int privilege_drop_for_good(void);

#endif

/*
 * The guard: holds an instance's limits from outside of its processes, below libcuda.
 *
 * The command and all that it starts run under a seccomp filter. System calls by which memory of a
 * card is got, freed or shared wait for the supervisor: two kinds of threads of this process, one
 * that answers them (trap.c) and others that look after processes, files, the audit (watch.c) and
 * the share of each card (share.h). The supervisor makes those calls itself, through a duplicate of
 * the caller's file and with copies of its arguments, so that nothing that was checked can be
 * changed afterwards. When this process dies, those calls fail (ENOSYS), and channels that were off
 * are switched on by a keeper process.
 *
 * One guard a process. In this order: guard_preflight(), guard_new(), fork, guard_child() in the
 * child and guard_start() in the parent, guard_end().
 */
#ifndef VGPU_GUARD_GUARD_H
#define VGPU_GUARD_GUARD_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The modes of spec/policies.def: what `vgpu run --guard` was given. */
enum guard_mode {
    GUARD_OFF,
    GUARD_ON, /* no mode */
#define GUARD_MODE(id, name, meaning) GUARD_##id,
#include "policies.def"
};

struct guard_config {
    enum guard_mode mode;
    const char *region_path; /* of the instance, in its folder */
    const struct vgpu_limits
        *limits; /* copied: they hold whatever the region says later; tier VGPU_TIER_GUARD */
    const char *device_dir; /* where the device nodes are; NULL: /dev */
    const char *nvml;       /* NVML's path; NULL: the system's */
    bool maps;              /* UVM's mappings are made by the supervisor */
    bool shares;            /* caps and turns too; false: whoever is preloaded sees to them */
};

/* What the guard needs: X(enum suffix, name of the check). */
#define GUARD_FACT_LIST(X)                                                                         \
    X(KERNEL, "kernel")                                                                            \
    X(SECCOMP, "seccomp")                                                                          \
    X(DRIVER, "driver branch")                                                                     \
    X(PTRACE, "ptrace")                                                                            \
    X(NVML, "NVML")                                                                                \
    X(HMM, "uvm_disable_hmm")

enum guard_fact {
#define X(id, name) GUARD_FACT_##id,
    GUARD_FACT_LIST(X)
#undef X
        GUARD_FACTS
};

struct guard_finding {
    int rc;         /* 0: good; above: worth knowing; below: the guard cannot work */
    char text[320]; /* what was found and, unless it is good, what to do */
};

/* `nvml`: the path of NVML that the user gives; NULL: none. Nothing is loaded. */
void guard_preflight(const char *device_dir, const char *nvml,
                     struct guard_finding ret_findings[GUARD_FACTS]);

struct guard;

/* Before the fork. -errno of the region or the system, said on stderr; -ENOPKG: strict mode, and no
 * NVML. */
int guard_new(const struct guard_config *config, struct guard **ret_guard);

/* In the child, before exec; it has one thread. Returns 0 when the supervisor serves it, -errno
 * otherwise. */
int guard_child(struct guard *guard);

/*
 * In the parent, after the fork: serves from now on. -errno: nothing is served. The child's
 * guard_child() fails, too; or it has returned already, and the child, which may be the program by
 * now, is the caller's to kill: none of its calls was answered, so it has got no memory and no
 * channel.
 */
int guard_start(struct guard *guard, pid_t child);

/*
 * Stops serving: memory calls of processes that are left fail from now on, their channels are on.
 * Frees the guard. NULL is fine.
 */
void guard_end(struct guard *guard);

struct guard_report {
    uint64_t traps;             /* system calls that waited for an answer */
    uint64_t refusals;          /* of them, calls for memory that did not fit */
    uint64_t audits;            /* comparisons with NVML's figure */
    uint64_t audit_differences; /* of them, those that found more than is accounted for */
    uint64_t channel_switches;
    bool ended; /* strict: the instance was ended because of a difference */
};

/* Any time before guard_end(). */
void guard_report(const struct guard *guard, struct guard_report *ret_report);

#endif

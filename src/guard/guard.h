/*
 * The guard: keeps an instance's limits from outside of its processes, below libcuda.
 *
 * The command and all that it starts run under a seccomp filter. System calls that get, free or
 * share device memory wait for the supervisor. One of its threads answers them (notify/trap.c);
 * others look after processes, files and the audit (notify/watch.c), and the share of each device
 * (sched/share.h). The supervisor makes those calls itself, through a duplicate of the caller's
 * file and with copies of the arguments, so nothing that was checked can change. When this process
 * dies, those calls fail (ENOSYS), and a keeper process switches channels on that were off.
 *
 * One guard a process, in this order: guard_preflight(), guard_new(), fork(), guard_child() in the
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
        *limits; /* copied, and hold whatever the region says later; tier VGPU_TIER_GUARD */
    const char *device_dir; /* where the device nodes are; NULL: /dev */
    const char *nvml;       /* NVML's path; NULL: the system's */
    bool maps;              /* the supervisor makes UVM's mappings */
    bool shares;            /* caps and turns, too; false: the preloaded library keeps them */
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
    int rc;         /* 0: good; positive: worth knowing; negative: the guard cannot work */
    char text[320]; /* what was found and, unless it is good, what to do */
};

/* `nvml`: the path of NVML that the user gives; NULL: none. Loads nothing. */
void guard_preflight(const char *device_dir, const char *nvml,
                     struct guard_finding ret_findings[GUARD_FACTS]);

struct guard;

/* Before the fork. -errno of the region or the system, which is logged; -ENOPKG: strict mode
 * without NVML. */
int guard_new(const struct guard_config *config, struct guard **ret_guard);

/* In the child, which has one thread, before exec. 0: the supervisor serves it; else -errno. */
int guard_child(struct guard *guard);

/*
 * In the parent, after the fork: serves from now on. -errno: nothing is served. Then guard_child()
 * fails, too; or it has returned already, and the caller has to kill the child, which may be the
 * program by now. None of its calls was answered, so it has no memory and no channel.
 */
int guard_start(struct guard *guard, pid_t child);

/*
 * Stops serving, and frees the guard: memory calls of processes that are left fail from now on, and
 * their channels are on. NULL is fine.
 */
void guard_end(struct guard *guard);

struct guard_report {
    uint64_t traps;             /* system calls that waited for an answer */
    uint64_t refusals;          /* of them, memory calls that did not fit the quota */
    uint64_t audits;            /* comparisons with NVML's figure */
    uint64_t audit_differences; /* of them, those that found more than is accounted for */
    uint64_t channel_switches;
    bool ended; /* strict: a difference has ended the instance */
};

/* Any time before guard_end(). */
void guard_report(const struct guard *guard, struct guard_report *ret_report);

#endif

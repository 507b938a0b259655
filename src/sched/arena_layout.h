/*
 * What the bytes of an arena mean, who writes them, and in which order.
 *
 * The arena of a device is where instances meet. Who can write it: the programs of all who share
 * it, at any time, lock or not. That is one user, or those whom root lets write to a common folder
 * (sched/arena_file.h). So indices are loaded once and checked where they are used, and times are
 * compared so that nonsense ends a wait rather than begins one. The worst that writing into it does
 * is that processes share the device as the driver shares it. Whoever truncates the file kills the
 * programs that have it mapped, by SIGBUS: the same user could kill them anyway, and root decides
 * whom a common folder trusts that far.
 *
 * Locking. "Under the lock" is arena_lock(): held for some hundred instructions. A holder that dies
 * or is stopped loses it after ARENA_LOCK_STALE_NS; what it left half-done is put right by the next
 * turn, since every decision is made from the pages anew.
 *
 * Turns. The tenant named by `holder` may run. Each process numbers its own turns: work of turn n
 * runs on the GPU once its page's `granted_turn` is at least n, for its streams wait for that word
 * before it (a semaphore). Granting a turn is storing `granted_turn`, by whichever process notices
 * that the turn before is over; no thread of the process that gets it need run. The GPU writes
 * `fence_completed` when a stream has reached a fence, so that everybody sees when a turn's work is
 * over.
 */
#ifndef VGPU_SCHED_ARENA_LAYOUT_H
#define VGPU_SCHED_ARENA_LAYOUT_H

#include "region/region.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_MAGIC      0x31414e4552415056ULL /* "VPARENA1" as bytes */
#define ARENA_VERSION    3u
#define ARENA_TENANTS    64
#define ARENA_PAGES      256
#define ARENA_STREAMS    32   /* streams of a process that work may be on at a time */
#define ARENA_PAGE_BYTES 4096 /* registered with the driver, so a page of its own */

/* arena_page.flags: a launch looks at nothing else where none is set. */
#define ARENA_CONTENDED 1u /* another tenant uses the device too */
#define ARENA_RESUME    2u /* the process was quiet and is counted out: it announces itself again */

/* arena_page.early */
#define ARENA_EARLY_BOUND 1u /* launching takes the program longer than running */
#define ARENA_EARLY_BURST 2u /* it has waited for the results of a burst */

/* arena_tenant.blocked */
#define ARENA_BLOCKED        1u
#define ARENA_BLOCKED_BY_CAP 2u /* but its cap would hold it back anyway, some of the time */

/* What has a tenant of its own: an instance. */
struct arena_tenant {
    _Atomic uint64_t id; /* 0: free; last when it is made. Under the lock, as the rest */
    _Atomic uint32_t weight, priority;
    _Atomic uint32_t devices; /* that the instance runs on */
    _Atomic uint32_t active;  /* a process of it launches, as of when somebody last looked */
    _Atomic uint32_t level;   /* up with each turn used up, down with each yielded; mlfq: 0 first */
    _Atomic uint32_t unscheduled_count; /* how often in a row it was taken off turns */
    _Atomic uint32_t
        untimed_overruns; /* how often its work of before it was contended has outlasted a turn */
    _Atomic uint32_t blocked;    /* a thread of it stands still until it gets the device:
                                    ARENA_BLOCKED, or _PATIENT */
    _Atomic uint64_t virtual_ns; /* held time over weight */
    _Atomic uint64_t lag_ns; /* how far that was behind the others after its last turn, which was
                                too short for it */
    _Atomic uint64_t
        wanted_ns; /* since when a process of it has waited; 0: none waits. Read without */
    /* Until then it gets no turn unless its work of before it was contended is over; read
     * without. */
    _Atomic uint64_t draining_until_ns;
    _Atomic uint64_t unscheduled_until_ns; /* until then it runs as the driver lets it, outside of
                                              turns; read without */
    _Atomic uint64_t unscheduled_last_ns;  /* when that was to end, the last time */
    _Atomic uint64_t grace_ns; /* how long it keeps the device without work; read without */
    _Atomic uint64_t
        yielded_ns; /* when it last yielded for want of work; 0: it did not, or is back */
    _Atomic uint64_t held_ns, waited_ns, turns;
    char name[VGPU_NAME_LEN];
};

struct arena_page {
    /* Looked at by every launch. */
    _Atomic uint32_t flags; /* under the lock; read without */
    _Atomic uint32_t
        launches; /* the process counts, without care for lost counts: whether it is active */

    /* The process's, in its threads; others read. */
    _Atomic uint32_t used __attribute__((
        aligned(64))); /* 0: free. Under the lock; liveness by record lock page + 1 */
    _Atomic uint32_t tenant;
    _Atomic uint32_t pending_turn; /* the turn that new launches belong to */
    _Atomic uint32_t runnable;     /* 1: work waits at a semaphore. Set by the process, cleared by a
                                      grant; under the lock */
    _Atomic uint32_t
        yielded_turn;       /* the arena's turn number in which this process has ended its part */
    _Atomic uint32_t early; /* it left although there was time: ARENA_EARLY_* */
    _Atomic uint32_t unfenced; /* not 0: there are launches since the last fence; in the turn, and
                                  at the semaphore */
    _Atomic uint32_t queued_unfenced;
    _Atomic uint32_t unknown; /* work of a time in which nobody measured may run in this turn */
    _Atomic uint32_t submitted_launches; /* launches of the turn */
    _Atomic uint32_t backlog;            /* launches that wait at the semaphore */
    _Atomic uint32_t pausing;            /* 1: it sleeps because of its cap: no launch comes soon */
    _Atomic uint64_t backlog_ns;         /* what they are estimated to cost */
    _Atomic uint64_t
        burst_ns; /* what it launched between its last two waits for results, estimated */
    _Atomic uint64_t
        busy_until_ns; /* when what was launched in this turn is estimated to be over */
    _Atomic int32_t pid;

    /* Under the lock: when somebody last saw that the process was active. */
    _Atomic uint32_t seen_launches __attribute__((aligned(64)));
    _Atomic uint32_t active;
    _Atomic uint64_t seen_ns;
    _Atomic uint64_t waited_ns,
        turns; /* added by grants, taken over into the region by the process */

    /* A word of its own for the GPU to poll and the next holder to write; a futex for threads that
     * wait for it. */
    _Atomic uint32_t granted_turn __attribute__((aligned(64)));
    _Atomic uint32_t wake; /* changes when the process's helper should look; a futex */

    /*
     * Fences, by place. The turn is over when `fence_completed` is `fence_required`. Fences of work
     * that waits at the semaphore are made, but are of the next turn: they become `fence_required`
     * when it is granted.
     */
    _Atomic uint32_t fence_issued[ARENA_STREAMS]
        __attribute__((aligned(64)));               /* the last one made; the process's */
    _Atomic uint32_t fence_required[ARENA_STREAMS]; /* the process's, and of whoever grants */
    _Atomic uint32_t fence_completed[ARENA_STREAMS]
        __attribute__((aligned(64))); /* the last one reached; the GPU's */
} __attribute__((aligned(ARENA_PAGE_BYTES)));

struct arena_layout {
    _Atomic uint64_t magic; /* written last when the file is made */
    _Atomic uint32_t version, layout_bytes;
    char uuid[VGPU_UUID_LEN];

    /* Of arena_lock(); region/shm_lock.h. The holder's identity is its page + 1. */
    _Atomic uint32_t lock __attribute__((aligned(64)));

    _Atomic uint32_t policy;     /* enum vgpu_turn_policy; a setting */
    _Atomic uint32_t quantum_us; /* a setting; 0: by the policy */

    _Atomic uint32_t holder
        __attribute__((aligned(64))); /* tenant + 1; 0: nobody. Under the lock; read without */
    _Atomic uint32_t turn;            /* its number; changes with every grant. As holder */
    _Atomic uint32_t waiting;         /* how many tenants wait. As holder */
    _Atomic uint32_t next;            /* tenant + 1 that is due; a hint. As holder */
    _Atomic uint32_t no_preempt; /* the turn is a short one, of a tenant that would have starved: it
                                    is not cut short */
    _Atomic uint64_t start_ns, end_ns; /* of the turn; end may be moved. As holder */
    _Atomic uint64_t tidied_ns;
    _Atomic uint64_t free_slot; /* its owner does nothing on any device (sched/gang.h): others may
                                   have it. By helpers */

    _Atomic uint32_t pages_high; /* pages at and above were never used */
    struct arena_tenant tenant[ARENA_TENANTS];
    struct arena_page page[ARENA_PAGES];
};

_Static_assert(sizeof(struct arena_page) == ARENA_PAGE_BYTES, "a page for each process");
_Static_assert(offsetof(struct arena_layout, page) % ARENA_PAGE_BYTES == 0, "pages begin on pages");
_Static_assert(ARENA_PAGES < VGPU_PROCS_MAX, "identities for liveness");

#endif

/*
 * What the bytes of an arena mean, who writes them, and in which order.
 *
 * Trust. The programs of all users of the device can write the arena at any time, lock or not. That
 * is one user, or the users whom root lets write to a common folder (sched/arena_file.h). So
 * indices are loaded once and checked before use, and a time that makes no sense ends a wait. The
 * worst that a writer can do is to make processes share the device as the driver shares it. A user
 * who truncates the file kills the programs that have it mapped, by SIGBUS. The same user could
 * kill them anyway, and root decides whom a common folder trusts that far.
 *
 * Locking. "Under the lock" is arena_lock(), held for some hundred instructions. A holder that dies
 * or is stopped loses it after ARENA_LOCK_STALE_NS. Nothing is repaired: the next turn makes every
 * decision anew, from the pages.
 *
 * Turns. The tenant named by `holder` may run. The arena numbers turns (`turn`, `yielded_turn`).
 * Each process numbers its own (`pending_turn`, `granted_turn`); the two are never compared. Work
 * of a process's turn n runs once `granted_turn` is at least n: its streams wait for that word (a
 * semaphore). A process that notices that a turn is over grants the next one by storing it. The
 * process that gets the turn need not run for that. The GPU writes `fence_completed` when a stream
 * reaches a fence, so every process sees when a turn's work is over.
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
#define ARENA_STREAMS    32   /* streams of a process with work at a time */
#define ARENA_PAGE_BYTES 4096 /* registered with the driver, so it is a page of memory */

/* arena_page.flags. A launch looks at nothing else if none is set. */
#define ARENA_CONTENDED 1u /* another tenant uses the device too */
#define ARENA_RESUME    2u /* the process is inactive, and announces its next launch */

/* arena_page.early: why a process has left a turn although there was time. */
#define ARENA_EARLY_BOUND 1u /* launching takes the program longer than running */
#define ARENA_EARLY_BURST 2u /* it waited for the results of a burst */

/* arena_tenant.blocked */
#define ARENA_BLOCKED        1u
#define ARENA_BLOCKED_BY_CAP 2u /* the same, and its cap would hold it back anyway */

/* A tenant is an instance. */
struct arena_tenant {
    _Atomic uint64_t id; /* 0: free. Written last. All words are written under the lock */
    _Atomic uint32_t weight, priority;
    _Atomic uint32_t devices; /* on which the instance runs */
    _Atomic uint32_t active;  /* a process of it launches, as of the last sched_tidy() */
    _Atomic uint32_t
        level; /* raised by each turn used up, lowered by each yielded; mlfq: 0 first */
    _Atomic uint32_t unscheduled_count; /* how often in a row it became unscheduled */
    _Atomic uint32_t
        untimed_overruns; /* turns overdue because of work from before the device was contended */
    _Atomic uint32_t blocked;    /* a thread of it is blocked until its turn: ARENA_BLOCKED or
                                    ARENA_BLOCKED_BY_CAP */
    _Atomic uint64_t virtual_ns; /* held time divided by weight */
    _Atomic uint64_t
        lag_ns; /* how far that was behind the others after its last turn, if that was too short */
    _Atomic uint64_t
        wanted_ns; /* since when a process of it has waited; 0: none waits. Read without the lock */
    /* Until then it gets no turn unless its earlier work is over. Read without the lock. */
    _Atomic uint64_t draining_until_ns;
    _Atomic uint64_t
        unscheduled_until_ns; /* until then it runs unscheduled; read without the lock */
    _Atomic uint64_t unscheduled_last_ns; /* when that was to end the last time */
    _Atomic uint64_t
        grace_ns; /* how long it keeps the device without work; read without the lock */
    _Atomic uint64_t
        yielded_ns; /* when it last yielded for want of work; 0: it did not, or has come back */
    _Atomic uint64_t held_ns, waited_ns, turns;
    char name[VGPU_NAME_LEN];
};

struct arena_page {
    /* Every launch reads these. */
    _Atomic uint32_t flags; /* written under the lock, read without */
    _Atomic uint32_t
        launches; /* counted by the process, a lost count does not matter: whether it is active */

    /* Written by the threads of the process, read by others. */
    _Atomic uint32_t used __attribute__((
        aligned(64))); /* 0: free. Written under the lock, and by its own process without; file lock
                          page + 1 tells whether the process lives */
    _Atomic uint32_t tenant;
    _Atomic uint32_t pending_turn; /* the turn to which new launches belong */
    _Atomic uint32_t runnable; /* 1: work waits at a semaphore. Set by the process under the lock;
                                  cleared by a grant, or by the process when it stops waiting */
    _Atomic uint32_t yielded_turn; /* the arena's number of the turn that this process has left */
    _Atomic uint32_t early;        /* it left although there was time: ARENA_EARLY_* */
    /* Launches of the turn have no fence yet: UNFENCED, UNFENCED_LEAVING; 0: all have. */
    _Atomic uint32_t unfenced;
    _Atomic uint32_t queued_unfenced;    /* 1: so have launches at the semaphore */
    _Atomic uint32_t untimed;            /* 1: work from before the device was contended may run */
    _Atomic uint32_t submitted_launches; /* launches of the turn */
    _Atomic uint32_t backlog;            /* launches that wait at the semaphore */
    _Atomic uint32_t
        pausing; /* 1: the process sleeps because of its cap, and launches nothing soon */
    _Atomic uint64_t backlog_ns; /* the estimated cost of these */
    _Atomic uint64_t
        burst_ns; /* estimated cost of its launches between its last two waits for results */
    _Atomic uint64_t busy_until_ns; /* when its launches of this turn are estimated to be over */
    _Atomic int32_t pid;

    /* Under the lock: when a process last saw it active. */
    _Atomic uint32_t seen_launches __attribute__((aligned(64)));
    _Atomic uint32_t active;
    _Atomic uint64_t seen_ns;
    _Atomic uint64_t waited_ns, turns; /* added by grants; the process adds them to its region */

    /* On a cache line of its own: the GPU polls it, the process that grants writes it, and threads
     * wait for it (a futex). */
    _Atomic uint32_t granted_turn __attribute__((aligned(64)));
    _Atomic uint32_t wake; /* changes when the process's helper should look; a futex */

    /*
     * Fences, by stream. The turn is over when `fence_completed` has reached `fence_required`.
     * Fences of work at the semaphore are issued but belong to the next turn: they become
     * `fence_required` when it is granted.
     */
    _Atomic uint32_t fence_issued[ARENA_STREAMS]
        __attribute__((aligned(64))); /* the last one issued; written by the process */
    _Atomic uint32_t
        fence_required[ARENA_STREAMS]; /* written by the process and by the one that grants */
    _Atomic uint32_t fence_completed[ARENA_STREAMS]
        __attribute__((aligned(64))); /* the last one reached; written by the GPU */
} __attribute__((aligned(ARENA_PAGE_BYTES)));

struct arena_layout {
    _Atomic uint64_t magic; /* written last when the file is made */
    _Atomic uint32_t version, layout_bytes;
    char uuid[VGPU_UUID_LEN];

    /* Of arena_lock(); region/shm_lock.h. The holder's identity is its page + 1. */
    _Atomic uint32_t lock __attribute__((aligned(64)));

    _Atomic uint32_t policy;     /* enum vgpu_turn_policy; a setting */
    _Atomic uint32_t quantum_us; /* a setting; 0: by the policy */

    _Atomic uint32_t holder __attribute__((
        aligned(64)));        /* tenant + 1; 0: none. Written under the lock, read without */
    _Atomic uint32_t turn;    /* its number; changes with every grant. As holder */
    _Atomic uint32_t waiting; /* how many tenants wait. As holder */
    _Atomic uint32_t next;    /* tenant + 1 that is due; a hint. As holder */
    _Atomic uint32_t
        no_preempt; /* the turn is short, of a tenant that would have starved: nothing cuts it */
    _Atomic uint64_t start_ns, end_ns; /* of the turn; the end may be moved. As holder */
    _Atomic uint64_t tidied_ns;
    _Atomic uint64_t free_slot; /* a slot whose owner is idle on all devices (sched/gang.h): another
                                   tenant may have it. Written by helpers */

    _Atomic uint32_t pages_high; /* pages at and above were never used */
    struct arena_tenant tenant[ARENA_TENANTS];
    struct arena_page page[ARENA_PAGES];
};

_Static_assert(sizeof(struct arena_page) == ARENA_PAGE_BYTES, "a page for each process");
_Static_assert(offsetof(struct arena_layout, page) % ARENA_PAGE_BYTES == 0, "pages begin on pages");
_Static_assert(ARENA_PAGES < VGPU_PROCS_MAX, "identities for liveness");

#endif

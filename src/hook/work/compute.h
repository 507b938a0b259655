/*
 * The steps of every launch: it is charged to the cap, takes turns on a shared device, and is
 * measured now and then.
 *
 * A handler describes its work and calls compute_begin(), the driver, and compute_end(). If nothing
 * limits the process and it has the device to itself, compute_off() says so for the price of three
 * loads and a count, and the handler just forwards:
 *
 *     struct work work = {.kind = VGPU_WORK_KERNEL, .stream = stream, .key = cost_key(...)};
 *
 *     if (compute_off())
 *         return FORWARD(sym, launch_kernel);
 *     compute_begin(&work);
 *     result = FORWARD(sym, launch_kernel);
 *     compute_end(&work, result);
 *
 * None of it synchronises, touches a stream that captures, or fails. compute_begin() may wait on
 * the CPU, for the cap or for a turn, always within a bound. Any thread; errno is kept.
 */
#ifndef VGPU_HOOK_WORK_COMPUTE_H
#define VGPU_HOOK_WORK_COMPUTE_H

#include "sched/bucket.h"
#include "sched/cost.h"
#include "account/hami.h"
#include "hook/work/semaphore.h"
#include "hook/loader/hook.h"
#include "sched/sched_params.h"

struct sample;
struct compute_device;

struct work {
    enum vgpu_work kind;
    bool per_thread;   /* it came through a _ptsz or _ptds entry point */
    CUstream stream;   /* NULL, the default stream, for calls without a stream argument */
    uint64_t key;      /* cost_key() of what is launched */
    uint64_t guess_ns; /* its cost as far as its size tells; 0: unknown */
    uint64_t most_ns;  /* its cost at most; 0: unknown */
    unsigned weight;   /* launches in the statistics; 0: as compute_begin() determines */

    /* For compute_begin() and what follows */
    struct compute_device *device; /* NULL: nothing was begun */
    struct cost_cell *cell;
    struct sample *sample;
    uint64_t begun_ns, charged_ns;
    struct bucket_hold hold[BUCKETS]; /* beside charged_ns, while the cost is unknown: cap.c */
    bool limited;                     /* it was charged to the cap */
    bool surveyed; /* neither cap nor neighbour limits it: it is measured for statistics only */
    bool measures; /* it is to have a sample */
    bool corrects; /* its sample corrects the charge; not where samples are rare and would only add
                      noise */
    int slot;      /* of the stream among those of the turn; -1: none */
};

/* Words that other processes write. Never NULL. */
struct compute_fast {
    _Atomic(const _Atomic uint32_t *) cap;
    _Atomic(const _Atomic uint32_t *) flags;
    _Atomic(const int32_t *) monitor; /* hami_word() */
    _Atomic(const uint64_t *) copy_rate;
    _Atomic(_Atomic uint32_t *) launches;
    _Atomic uint32_t survey; /* the count of launches at which the next is measured */
};
extern struct compute_fast compute_fast;

/* 0: nothing stands in a launch's way. */
static inline uint32_t compute_hindrance(void)
{
    const _Atomic uint32_t *cap = atomic_load_explicit(&compute_fast.cap, memory_order_relaxed);
    const _Atomic uint32_t *flags = atomic_load_explicit(&compute_fast.flags, memory_order_relaxed);
    const int32_t *monitor = atomic_load_explicit(&compute_fast.monitor, memory_order_relaxed);

    return atomic_load_explicit(cap, memory_order_relaxed) |
           atomic_load_explicit(flags, memory_order_relaxed) |
           ((uint32_t)__atomic_load_n(monitor, __ATOMIC_RELAXED) ^ HAMI_RECENT);
}

static inline bool compute_off(void)
{
    _Atomic uint32_t *launches = atomic_load_explicit(&compute_fast.launches, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(launches, memory_order_relaxed) + 1;

    if (__builtin_expect(compute_hindrance(), 0))
        return false;
    /* Two threads may count as one launch: the count shows activity, and nobody needs the
     * number. */
    atomic_store_explicit(launches, count, memory_order_relaxed);
    if (__builtin_expect(
            (int32_t)(count - atomic_load_explicit(&compute_fast.survey, memory_order_relaxed)) < 0,
            1))
        return true;
    atomic_store_explicit(&compute_fast.survey, count + COMPUTE_SURVEY, memory_order_relaxed);
    return false;
}

/* For how many launches in the statistics one stands that compute_off() has not let pass. */
static inline unsigned compute_weight(void)
{
    return compute_hindrance() ? 1 : COMPUTE_SURVEY;
}

/*
 * The three steps before a launch: compute_admit() waits for the cap, compute_enter() for a turn,
 * and compute_measure() begins to measure. If one call starts work on several devices, all of it
 * takes each step before any takes the next. So no measurement on one device contains a wait for
 * another.
 */
void compute_admit(struct work *work);
void compute_enter(struct work *work);
void compute_measure(struct work *work);

static inline void compute_begin(struct work *work)
{
    compute_admit(work);
    compute_enter(work);
    compute_measure(work);
}

void compute_end(struct work *work, CUresult result);

/* Before a call that waits for the device, or asks about it: vgpu can learn that earlier launches
 * are done. One load if the process has the device to itself. */
extern atomic_bool compute_turns;
void compute_waits_slow(bool blocks);
static inline void compute_waits(void)
{
    if (__builtin_expect(atomic_load_explicit(&compute_turns, memory_order_relaxed), 0))
        compute_waits_slow(true);
}

/* Around a call that waits for one stream, or for all of the current context. Ends only if the call
 * succeeded. */
void compute_wait_begins_slow(CUstream stream, bool per_thread, bool context,
                              struct semaphore_wait *ret_wait);
void compute_wait_ends_slow(const struct semaphore_wait *wait);

static inline struct semaphore_wait compute_wait_begins(CUstream stream, bool per_thread,
                                                        bool context)
{
    struct semaphore_wait wait = {.slot = -1};

    if (__builtin_expect(atomic_load_explicit(&compute_turns, memory_order_relaxed), 0))
        compute_wait_begins_slow(stream, per_thread, context, &wait);
    return wait;
}

static inline void compute_wait_ends(const struct semaphore_wait *wait)
{
    if (__builtin_expect(wait->slot >= 0, 0))
        compute_wait_ends_slow(wait);
}

/* After a call that waited for the device: the cost of what the next launch, of any process, would
 * wait for may be known by now. One load if nothing is unknown or limited. */
extern atomic_bool compute_holds;
void compute_waited_slow(void);
static inline void compute_waited(void)
{
    if (__builtin_expect(atomic_load_explicit(&compute_holds, memory_order_relaxed), 0))
        compute_waited_slow();
}

/* As compute_waits(), for a question that does not wait. */
static inline void compute_asks(void)
{
    if (__builtin_expect(atomic_load_explicit(&compute_turns, memory_order_relaxed), 0))
        compute_waits_slow(false);
}

/* A copy of `bytes` between host and device: counts it, as `weight` of them, and holds it to the
 * limit (`--copy-bw`) if there is one. */
void compute_host_copy(enum vgpu_work direction, uint64_t bytes, unsigned weight);

/* Whether there is a limit. Then every copy is looked at, whatever compute_off() says. */
static inline bool compute_copies_limited(void)
{
    const uint64_t *rate = atomic_load_explicit(&compute_fast.copy_rate, memory_order_relaxed);

    return __builtin_expect(__atomic_load_n(rate, __ATOMIC_RELAXED) > 0, 0);
}

/* The thing behind a handle is gone, or was changed. `key` as given to work.key. */
void compute_forget(uint64_t key);
void compute_changed(uint64_t key);

/* For the handlers of contexts: the process has a context on this device now; a context is about to
 * end (its events may be asked about); a context may have ended. */
void compute_context_made(CUdevice device);
void compute_context_ending(CUcontext context);
void compute_context_ends(CUcontext context);

void compute_stream_ends(CUstream stream,
                         bool per_thread); /* before the driver destroys it, or it captures */

#endif

/*
 * What holds streams: one thread looks after their first operations, after words that are to be
 * written when a kernel is done, and after kernels that end when a word says so. Another one runs
 * host functions, so that one of them that waits for the device stops nothing.
 *
 * The thread sleeps until the next moment that it can foresee. Words in memory it looks at every
 * SIMGPU_POLL, more rarely the more processes do so: a wake-up costs a processor some 25 us. Where
 * the kernel can (5.16), it sleeps on the words themselves, so a process that stores a word and
 * calls FUTEX_WAKE on it is noticed at once.
 */
#include "stream.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 1000000000ULL
/* What it may be late; where it can foresee the moment it gets up earlier and looks. */
#define LATE_NS          60000ULL
#define RETRY_NS         20000ULL
#define SPIN_SHARE       5 /* a part of its time, at most, that it spends looking */
#define SPIN_MAX_NS      1000000ULL
#define RECOUNT_NS       5000000ULL
#define WORDS            16
#define CALL_FUTEX_WAITV 449

struct write {
    struct sim_stream *stream;
    int device;
    uint64_t number;
    struct sim_memop memop;
    struct write *next;
};

struct until {
    int device;
    uint64_t number;
    struct sim_memop memop;
    struct until *next;
};

struct waitv { /* struct futex_waitv */
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

enum { WAITV_32 = 2, WAITV_PRIVATE = 128 };

/* Until when to sleep, and on what. */
struct nap {
    uint64_t foreseen_ns;
    bool retries, polls;
    uint32_t kicks;
    struct waitv words[WORDS + 1];
    unsigned count;
};

struct sim_stream *worker_held;

static pthread_cond_t changed;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static struct sim_op *calls;
static struct write *writes, **writes_end = &writes;
static int write_count;
static struct until *untils;
static bool runs, sleeps, no_waitv;
static uint32_t kicks;
static uint64_t spin_credit_ns, spin_from_ns;

void worker_kick(void)
{
    __atomic_fetch_add(&kicks, 1, __ATOMIC_RELAXED);
    if (sleeps)
        syscall(SYS_futex, &kicks, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static struct timespec moment(uint64_t time_ns)
{
    return (struct timespec){.tv_sec = (time_t)(time_ns / 1000000000ULL),
                             .tv_nsec = (long)(time_ns % 1000000000ULL)};
}

void work_wait_change(void)
{
    struct timespec until = moment(sim_now_ns() + 10000000);

    if (worker_start()) {
        sim_unlock();
        sim_delay(1000000);
        sim_lock();
        return;
    }
    pthread_cond_timedwait(&changed, &sim.mutex, &until);
}

/* Kernels done, by device; asked once for each in a pass. */
struct heads {
    bool known[SIM_MAX_DEVICES];
    uint64_t head[SIM_MAX_DEVICES];
};

static uint64_t head_of(struct heads *heads, int device)
{
    if (!heads->known[device]) {
        sim_lock_state();
        sched_advance_locked(sim.state, device, sim_now_ns());
        heads->head[device] = sim.self->queue[device].head;
        state_unlock(sim.state);
        heads->known[device] = true;
    }
    return heads->head[device];
}

bool worker_settle(void)
{
    struct heads heads = {0};
    bool moved = false;

    for (struct write **link = &writes; *link;) {
        struct write *write = *link;
        if (head_of(&heads, write->device) < write->number) {
            link = &write->next;
            continue;
        }
        memop_write(&write->memop);
        write->stream->writes--;
        *link = write->next;
        if (!write->next)
            writes_end = link;
        free(write);
        __atomic_fetch_sub(&write_count, 1, __ATOMIC_RELAXED);
        moved = true;
    }
    return moved;
}

void worker_settle_unlocked(void)
{
    if (!__atomic_load_n(&write_count, __ATOMIC_RELAXED))
        return;
    sim_lock();
    worker_settle();
    sim_unlock();
}

int worker_write(struct sim_stream *stream, uint64_t number, const struct sim_memop *memop)
{
    struct write *write = malloc(sizeof(*write));

    int code = write ? worker_start() : ERR_OUT_OF_MEMORY;
    if (code) {
        free(write);
        return code;
    }
    *write = (struct write){stream, stream->context->device, number, *memop, NULL};
    bool next = true; /* else it is going to get up for another one first */
    for (const struct write *other = writes; other; other = other->next)
        next &= other->device != write->device || other->number > number;
    *writes_end = write;
    writes_end = &write->next;
    __atomic_fetch_add(&write_count, 1, __ATOMIC_RELAXED);
    stream->writes++;
    if (next)
        worker_kick();
    return OK;
}

bool worker_writes(const struct sim_stream *stream, const struct sim_memop *memop)
{
    if (!stream->writes)
        return false;
    for (const struct write *write = writes; write; write = write->next) {
        devptr start = write->memop.address, end = start + (write->memop.wide ? 8 : 4);
        if (write->stream == stream && start < memop->address + (memop->wide ? 8 : 4) &&
            memop->address < end)
            return true;
    }
    return false;
}

int worker_until(int device, uint64_t number, const struct sim_kernel *kernel)
{
    struct until *until = malloc(sizeof(*until));

    int code = until ? worker_start() : ERR_OUT_OF_MEMORY;
    if (code) {
        free(until);
        return code;
    }
    *until =
        (struct until){device, number, {kernel->address, kernel->value, WAIT_EQ, false}, untils};
    untils = until;
    worker_kick();
    return OK;
}

static bool end_untils(void)
{
    struct heads heads = {0};
    bool moved = false;

    for (struct until **link = &untils; *link;) {
        struct until *until = *link;
        bool true_now = memop_true(&until->memop);
        if (!true_now && head_of(&heads, until->device) < until->number) {
            link = &until->next;
            continue;
        }
        sim_lock_state();
        sched_finish_locked(sim.state, until->device, sim.slot, until->number, sim_now_ns());
        state_unlock(sim.state);
        *link = until->next;
        free(until);
        moved = true;
    }
    return moved;
}

static void *call_thread(void *unused)
{
    (void)unused;
    sim_lock();
    for (;;) {
        struct sim_op *op = calls;
        if (!op) {
            pthread_cond_wait(&called, &sim.mutex);
            continue;
        }
        calls = op->next_call;
        sim_unlock();
        op->function(op->user);
        sim_lock();
        op->state = CALL_DONE;
        worker_kick();
    }
    return NULL;
}

/* Host functions run one after the other, in the order in which their turns come. */
static bool run_call(struct sim_stream *stream, struct sim_op *op)
{
    if (op->state == CALL_WAITS && work_number_done(stream->context->device, stream->last)) {
        struct sim_op **link = &calls;
        while (*link)
            link = &(*link)->next_call;
        *link = op;
        op->next_call = NULL;
        op->state = CALL_RUNS;
        pthread_cond_signal(&called);
    }
    return op->state == CALL_DONE;
}

/* Does the stream's first operation if it can be done; true when it did. */
static bool run_first(struct sim_stream *stream)
{
    struct sim_op *op = stream->first;

    if (!(op->kind == OP_CALL ? run_call(stream, op) : work_try(stream, op)))
        return false;
    if (op->kind == OP_COPY)
        stream->free_ns = op->copy.end_ns;
    else if (op->kind == OP_CALL || op->kind == OP_WAIT || op->kind == OP_WAIT_WORD ||
             op->kind == OP_JOIN)
        stream->free_ns = sim_now_ns();
    stream->first = op->next;
    if (!stream->first)
        stream->end = NULL;
    stream->let_go++;
    if (op->kind == OP_WAIT)
        record_drop(op->wait.record);
    else if (op->kind == OP_RECORD)
        record_drop(op->record);
    free(op);
    return true;
}

/* One pass over the streams that are held; true when anything moved. */
static bool run_held(void)
{
    bool moved = false;

    for (struct sim_stream *stream = worker_held; stream; stream = stream->next_held) {
        while (stream->first && run_first(stream))
            moved = true;
    }
    for (struct sim_stream **link = &worker_held; *link;) {
        struct sim_stream *stream = *link;
        if (stream->first) {
            link = &stream->next_held;
            continue;
        }
        *link = stream->next_held;
        stream->held = false;
    }
    return moved;
}

static void foresee(struct nap *nap, uint64_t time_ns)
{
    if (time_ns < nap->foreseen_ns)
        nap->foreseen_ns = time_ns;
}

static void foresee_number(struct nap *nap, int device, uint64_t number)
{
    foresee(nap, sim_now_ns() + work_remaining(device, number));
}

/* Adds a word to those that are slept on; false when it says already what is waited for. */
static bool watch(struct nap *nap, const struct sim_memop *memop)
{
    const uint32_t *word = memop_word(memop->address, memop->wide);
    uint32_t value = word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;

    if (memop_true(memop))
        return false;
    nap->polls = true;
    if (nap->count <= WORDS)
        nap->words[nap->count++] = (struct waitv){value, (uintptr_t)word, WAITV_32, 0};
    return true;
}

/* Finds out what the stream waits for; false when it is there. */
static bool plan_stream(struct nap *nap, struct sim_stream *stream)
{
    const struct sim_op *op = stream->first;
    int device = stream->context->device;

    switch (op->kind) {
    case OP_CALL:
        if (op->state == CALL_WAITS)
            foresee_number(nap, device, stream->last);
        break;
    case OP_COPY:
        if (op->copy.end_ns)
            foresee(nap, op->copy.end_ns);
        else
            foresee_number(nap, device, stream->last);
        break;
    case OP_WAIT:
        if (!op->wait.record)
            foresee_number(nap, op->wait.device, op->wait.number);
        else if (op->wait.record->submitted)
            foresee_number(nap, op->wait.record->device, op->wait.record->number);
        break;
    case OP_KERNEL:
        nap->retries = true; /* the queue is full */
        break;
    case OP_WAIT_WORD:
        return worker_writes(stream, &op->memop) || watch(nap, &op->memop);
    default:
        break;
    }
    return true;
}

/* False when there is something to do at once. */
static bool plan(struct nap *nap)
{
    bool idle = true;

    for (struct sim_stream *stream = worker_held; stream; stream = stream->next_held) {
        if (stream->first)
            idle &= plan_stream(nap, stream);
    }
    for (const struct write *write = writes; write; write = write->next) {
        if (write == writes || write->number < writes->number || write->device != writes->device)
            foresee_number(nap, write->device, write->number);
    }
    for (const struct until *until = untils; until; until = until->next)
        idle &= watch(nap, &until->memop);
    return idle;
}

/* All processes that look at words share about half a processor. */
static uint64_t poll_interval(uint64_t now_ns)
{
    static uint64_t counted_ns, others;

    if (now_ns > counted_ns + RECOUNT_NS) {
        counted_ns = now_ns;
        others = 0;
        for (uint32_t slot = 0; slot < sim.state->process_count; slot++) {
            const struct sim_process *process = &sim.state->process[slot];
            others += process != sim.self && process->life == SIM_LIVE && process->polls;
        }
    }
    return sim.poll_ns * (1 + 2 * others);
}

static void sleep_on(struct nap *nap, uint64_t until_ns)
{
    struct timespec until = moment(until_ns);

    if (nap->count > 1 && !no_waitv) {
        nap->words[0] = (struct waitv){nap->kicks, (uintptr_t)&kicks, WAITV_32 | WAITV_PRIVATE, 0};
        if (syscall(CALL_FUTEX_WAITV, nap->words, nap->count, 0, &until, CLOCK_MONOTONIC) >= 0)
            return;
        if (errno == ETIMEDOUT || errno == EAGAIN || errno == EINTR)
            return;
        no_waitv = errno == ENOSYS || errno == EPERM;
    }
    syscall(SYS_futex, &kicks, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, nap->kicks, &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

/* Whether it may look until then, by its share of time. */
static bool may_spin(uint64_t now_ns, uint64_t until_ns)
{
    spin_credit_ns += (now_ns - spin_from_ns) / SPIN_SHARE;
    if (spin_credit_ns > SPIN_MAX_NS)
        spin_credit_ns = SPIN_MAX_NS;
    spin_from_ns = now_ns;
    return until_ns < now_ns + 2 * LATE_NS && until_ns < now_ns + spin_credit_ns;
}

static void spin(uint64_t now_ns, uint64_t until_ns, uint32_t seen)
{
    uint64_t start_ns = now_ns;

    while (now_ns < until_ns && __atomic_load_n(&kicks, __ATOMIC_RELAXED) == seen)
        now_ns = sim_now_ns();
    spin_credit_ns -= now_ns - start_ns < spin_credit_ns ? now_ns - start_ns : spin_credit_ns;
}

/* Sleeps as planned. Begins and ends with sim.mutex. */
static void rest(struct nap *nap)
{
    uint64_t now_ns = sim_now_ns(), until_ns = nap->foreseen_ns;

    if (sim.self->polls != nap->polls)
        sim.self->polls = nap->polls;
    bool spins = may_spin(now_ns, until_ns);
    if (until_ns > now_ns + 2 * LATE_NS)
        until_ns -= LATE_NS;
    uint64_t most_ns = nap->polls ? poll_interval(now_ns) : nap->retries ? RETRY_NS : NAP_NS;
    if (until_ns > now_ns + most_ns)
        until_ns = now_ns + most_ns;
    sleeps = !spins;
    sim_unlock();
    if (spins)
        spin(now_ns, until_ns, nap->kicks);
    else
        sleep_on(nap, until_ns);
    sim_lock();
    sleeps = false;
}

/* A device is not kept waiting by busy processors: as far as the kernel lets it, neither is this
 * thread. */
static void hurry(void)
{
    prctl(PR_SET_TIMERSLACK, 1);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -10);
}

static void *work_thread(void *unused)
{
    (void)unused;
    hurry();
    sim_lock();
    spin_from_ns = sim_now_ns();
    for (;;) {
        bool moved = run_held();
        moved |= worker_settle();
        moved |= end_untils();
        if (moved) {
            pthread_cond_broadcast(&changed);
            continue;
        }
        struct nap nap = {.foreseen_ns = sim_now_ns() + NAP_NS, .kicks = kicks, .count = 1};
        if (plan(&nap))
            rest(&nap);
    }
    return NULL;
}

static int start_thread(void *(*function)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's signals are for its own threads */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, function, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error ? ERR_OPERATING_SYSTEM : OK;
}

int worker_start(void)
{
    pthread_condattr_t clock;

    if (runs)
        return OK;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &clock);
    pthread_condattr_destroy(&clock);
    int code = start_thread(work_thread);
    if (!code)
        code = start_thread(call_thread);
    runs = !code;
    return code;
}

int worker_hold(struct sim_stream *stream, const struct sim_op *op)
{
    struct sim_op *copy = malloc(sizeof(*copy));
    struct sim_record *record = op->kind == OP_RECORD ? calloc(1, sizeof(*record)) : NULL;

    int code = copy && (record || op->kind != OP_RECORD) ? worker_start() : ERR_OUT_OF_MEMORY;
    if (code) {
        free(record);
        free(copy);
        return code;
    }
    *copy = *op;
    copy->next = NULL;
    if (record) {
        record->references = 2; /* the operation's and the event's */
        copy->record = record;
        record_drop(op->event->held);
        op->event->held = record;
        op->event->state = EVENT_HELD;
        op->event->held_records++;
    }
    if (stream->end)
        stream->end->next = copy;
    else
        stream->first = copy;
    stream->end = copy;
    stream->kept++;
    if (!stream->held) {
        stream->held = true;
        stream->next_held = worker_held;
        worker_held = stream;
    }
    if (stream->first == copy)
        worker_kick();
    return OK;
}

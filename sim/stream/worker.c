/*
 * The worker: a thread that does what is to happen after a call has returned. It sleeps until the
 * next time that its sources foresee. It polls words in memory every SIMGPU_POLL, less often the
 * more processes do so: a wake-up costs a processor about 25 us. From Linux 5.16 on it sleeps on
 * the words themselves, and wakes at once if a process stores a word and calls FUTEX_WAKE.
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
/* The thread may wake this late, so it wakes earlier by that, and polls the clock. */
#define LATE_NS          60000ULL
#define RETRY_NS         20000ULL
#define SPIN_SHARE       5 /* it polls for at most one part in so many of its time */
#define SPIN_MAX_NS      1000000ULL
#define RECOUNT_NS       5000000ULL
#define WORDS            16
#define CALL_FUTEX_WAITV 449

struct waitv { /* struct futex_waitv */
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

enum { WAITV_32 = 2, WAITV_PRIVATE = 128 };

/* The time until which to sleep, and the words to sleep on. */
struct nap {
    uint64_t foreseen_ns;
    bool retries, polls;
    uint32_t kicks;
    struct waitv words[WORDS + 1];
    unsigned count;
};

static pthread_cond_t changed;
static bool runs, sleeps, no_waitv;
static uint32_t kicks;
static uint64_t spin_credit_ns, spin_from_ns;

static const struct worker_source *const *sources;
static size_t source_count;

void worker_set_sources(const struct worker_source *const *all, size_t count)
{
    sources = all;
    source_count = count;
}

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

void worker_wait(void)
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

void nap_foresee(struct nap *nap, uint64_t time_ns)
{
    if (time_ns < nap->foreseen_ns)
        nap->foreseen_ns = time_ns;
}

void nap_foresee_kernel(struct nap *nap, int device, uint64_t number)
{
    nap_foresee(nap, sim_now_ns() + queue_remaining(device, number));
}

void nap_retry(struct nap *nap)
{
    nap->retries = true;
}

void nap_watch(struct nap *nap, const uint32_t *word, uint32_t value)
{
    nap->polls = true;
    if (nap->count <= WORDS)
        nap->words[nap->count++] = (struct waitv){value, (uintptr_t)word, WAITV_32, 0};
}

/* Runs all sources once; true if any of them did something. */
static bool run(void)
{
    bool moved = false;

    for (size_t at = 0; at < source_count; at++)
        moved |= sources[at]->run();
    return moved;
}

/* False when there is something to do at once. */
static bool plan(struct nap *nap)
{
    bool idle = true;

    for (size_t at = 0; at < source_count; at++)
        idle &= sources[at]->plan(nap);
    return idle;
}

/* All processes that poll words share about half a processor. */
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

/* True if the thread's share of time lets it poll until then. */
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

/* Busy processors do not delay a device, so this thread asks the kernel for priority. */
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
        if (run()) {
            pthread_cond_broadcast(&changed);
            continue;
        }
        struct nap nap = {.foreseen_ns = sim_now_ns() + NAP_NS, .kicks = kicks, .count = 1};
        if (plan(&nap))
            rest(&nap);
    }
    return NULL;
}

int worker_thread(void *(*function)(void *))
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
    return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

int worker_start(void)
{
    pthread_condattr_t clock;

    if (runs)
        return CUDA_SUCCESS;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &clock);
    pthread_condattr_destroy(&clock);
    int code = worker_thread(work_thread);
    runs = !code;
    return code;
}

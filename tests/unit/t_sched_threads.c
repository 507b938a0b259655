/*
 * Turns in real time between threads, each of which stands for a process. Another thread is the
 * device. This finds races, under a thread sanitizer; t_sched.c tests the times.
 */
#include "base/mutex.h"
#include "sched/sched_client.h"
#include "unit.h"

#include <pthread.h>
#include <time.h>

#define PARTIES   3
#define QUEUE     4096
#define KERNEL_NS 200000ULL
#define BATCH     8

struct op {
    enum { KERNEL, GATE, MARK } kind;
    uint32_t value;
};

struct party {
    struct vgpu_mutex mutex; /* of what is the process's */
    struct sched_client client;
    struct sched_observer observer;
    uint32_t semaphore_turn, work_turn;
    bool launched;

    struct op ops[QUEUE]; /* one writes, the device reads */
    _Atomic unsigned tail, head;
    _Atomic uint64_t done, starts_untimed; /* kernels; of them, when another had the device */
    uint64_t longest_wait_ns;
};

static struct party parties[PARTIES];
static struct vgpu_arena *arena;
static atomic_bool over;

static void nap_us(unsigned us)
{
    struct timespec nap = {.tv_nsec = (long)us * 1000};

    nanosleep(&nap, NULL);
}

static void push(struct party *party, struct op op)
{
    unsigned tail = atomic_load(&party->tail);

    party->ops[tail % QUEUE] = op;
    atomic_store(&party->tail, tail + 1);
}

/* As hook/work/semaphore.c has it */

static void fence_all(struct party *party)
{
    sched_client_fences(&party->client);
    if (!party->launched)
        return;
    party->launched = false;
    push(party, (struct op){.kind = MARK,
                            .value = sched_client_fence(&party->client, 0, party->work_turn)});
}

static void enter(struct party *party, struct sched_ticket *ret_ticket)
{
    for (;;) {
        uint64_t now_ns = clock_ns();

        mutex_lock(&party->mutex);
        sched_client_tidy(&party->client, now_ns);
        sched_client_launch(&party->client, KERNEL_NS, now_ns, ret_ticket);
        if (!ret_ticket->ahead)
            return;
        mutex_unlock(&party->mutex);
        nap_us(SCHED_NAP_NS / 1000);
    }
}

static void launch(struct party *party)
{
    struct sched_ticket ticket = {0};
    struct arena_page *page = party->client.page;

    if (sched_client_flags(&party->client) & ARENA_RESUME) {
        MUTEX_SCOPE(&party->mutex);
        sched_client_resume(&party->client, clock_ns());
    }
    if (sched_client_flags(&party->client) & ARENA_CONTENDED) {
        enter(party, &ticket);
        if (ticket.fences)
            fence_all(party);
        if (ticket.queued && (int32_t)(ticket.turn - party->semaphore_turn) > 0) {
            push(party, (struct op){.kind = GATE, .value = ticket.turn});
            party->semaphore_turn = ticket.turn;
            atomic_fetch_add(&page->wake, 1);
            futex_wake(&page->wake, 1, 1);
        }
        party->work_turn = ticket.turn;
        party->launched = true;
        sched_client_launched(&party->client, ticket.turn);
        mutex_unlock(&party->mutex);
        while (ticket.queued && ticket.full && !sched_client_open(&party->client, ticket.turn) &&
               !atomic_load(&over))
            nap_us(50);
    } else {
        atomic_fetch_add(&page->launches, 1);
    }
    push(party, (struct op){.kind = KERNEL});
}

static void *run(void *arg)
{
    struct party *party = arg;

    while (!atomic_load(&over)) {
        uint64_t start_ns, waited_ns;

        for (int i = 0; i < BATCH; i++)
            launch(party);
        if (sched_client_flags(&party->client) & ARENA_CONTENDED) {
            MUTEX_SCOPE(&party->mutex);
            sched_client_waits(&party->client);
            fence_all(party);
        }
        start_ns = clock_ns();
        while (atomic_load(&party->head) != atomic_load(&party->tail) && !atomic_load(&over))
            nap_us(20);
        waited_ns = clock_ns() - start_ns;
        if (waited_ns > party->longest_wait_ns)
            party->longest_wait_ns = waited_ns;
    }
    return NULL;
}

static void *help(void *arg)
{
    struct party *party = arg;

    while (!atomic_load(&over)) {
        uint32_t wake = atomic_load(&party->client.page->wake);
        uint64_t again_ns = sched_client_watch(&party->client, &party->observer, clock_ns());

        if (again_ns > 0)
            futex_wait(&party->client.page->wake, wake,
                       again_ns > NS_PER_S / 10 ? NS_PER_S / 10 : again_ns, 1);
        else
            cpu_relax();
    }
    return NULL;
}

static bool step(struct party *party)
{
    unsigned head = atomic_load(&party->head);
    struct op op;

    if (head == atomic_load(&party->tail))
        return false;
    op = party->ops[head % QUEUE];
    if (op.kind == GATE && !sched_client_open(&party->client, op.value))
        return false;
    if (op.kind == KERNEL) {
        uint32_t holder = atomic_load(&arena->layout->holder);

        if (holder != 0 && holder != atomic_load(&party->client.tenant) + 1)
            atomic_fetch_add(&party->starts_untimed, 1);
        nap_us(KERNEL_NS / 1000);
        atomic_fetch_add(&party->done, 1);
    } else if (op.kind == MARK) {
        atomic_store(&party->client.page->fence_completed[0], op.value);
    }
    atomic_store(&party->head, head + 1);
    return true;
}

static void *device(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        bool any = false;

        for (unsigned i = 0; i < PARTIES; i++)
            any = step(&parties[i]) || any;
        if (!any)
            nap_us(5);
    }
    return NULL;
}

TEST(threads)
{
    pthread_t threads[2 * PARTIES + 1];
    uint64_t all = 0, starts_untimed = 0;

    setenv("VGPU_ARENA_DIR", scratch(), 1);
    assert_int_equal(arena_open("GPU-threads", true, &arena), 0);
    for (unsigned i = 0; i < PARTIES; i++) {
        struct sched_identity self = {.id = i + 1, .weight = 100};

        assert_int_equal(sched_client_join(arena, &self, &parties[i].client), 0);
        assert_int_equal(pthread_create(&threads[2 * i], NULL, run, &parties[i]), 0);
        assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, help, &parties[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[2 * PARTIES], NULL, device, NULL), 0);
    nap_ms(2000);
    atomic_store(&over, true);
    for (unsigned i = 0; i < 2 * PARTIES + 1; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < PARTIES; i++) {
        all += parties[i].done;
        starts_untimed += parties[i].starts_untimed;
    }
    for (unsigned i = 0; i < PARTIES; i++) {
        print_message("party %u: %llu kernels, longest wait %.1f ms\n", i,
                      (unsigned long long)parties[i].done,
                      (double)parties[i].longest_wait_ns / 1e6);
        /* In real time, on a machine with other work: how well turns go is for the tests in virtual
         * time. */
        assert_true(parties[i].done * PARTIES * 10 > all);
        assert_true(parties[i].longest_wait_ns < SCHED_RESCUE_NS * SLOWER);
    }
    print_message("%llu of %llu kernels outside of their turn, %llu turns\n",
                  (unsigned long long)starts_untimed, (unsigned long long)all,
                  (unsigned long long)arena->layout->turn);
    assert_true(starts_untimed < all);
    assert_true(arena->layout->turn > 10);
}

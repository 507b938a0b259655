/*
 * Every word of an arena changes right after every access to it, while clients of both kinds work.
 * Code that loads a word a second time after a check finds another value. The arena is protected,
 * so each access faults. The test lets it through by a single step and then changes the word, by a
 * seed, so nothing depends on how threads run. An unbounded index, shift or pointer faults
 * elsewhere or stops a sanitizer.
 */
#include "sched/sched_preempt.h"
#include "sched_world.h"
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#ifdef __x86_64__

#define TRAP_FLAG     0x100
#define ACCESSES      6000u
#define ROUNDS_MOST   20000u
#define WORDS         (sizeof(struct arena_layout) / 4)
#define PROCESSES     3u
#define CHANGED_LEAST 200u

static struct {
    char *base;
    size_t word; /* that the instruction under way has touched */
    unsigned one_in;
    uint64_t random, now_ns;
    unsigned accesses;
    bool changed[WORDS];
} flips;

static void protect(int rights)
{
    if (mprotect(flips.base, sizeof(struct arena_layout), rights) < 0)
        abort();
}

static uint32_t another_value(uint32_t old)
{
    uint64_t value = world_random(&flips.random);

    switch (value >> 60) {
    case 0:
    case 1:
        return 0;
    case 2:
    case 3:
    case 4:
        return (uint32_t)(value % 70); /* looks like an index, a count, a flag */
    case 5:
        return 0x00ffffff;
    case 6:
        return UINT32_MAX;
    case 7:
    case 8:
        return (uint32_t)(flips.now_ns + value % (2 * SEC) - SEC);
    case 9:
    case 10:
        return (uint32_t)value;
    default:
        return old ^ 1u << (value % 32);
    }
}

static void change_word(void)
{
    uint32_t *words = (uint32_t *)flips.base;

    /* A lock that is never free lets nothing happen. */
    if (flips.word == offsetof(struct arena_layout, lock) / 4 && world_random(&flips.random) % 64)
        return;
    if (world_random(&flips.random) % flips.one_in)
        return;
    words[flips.word] = another_value(words[flips.word]);
    flips.changed[flips.word] = true;
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    char *at = info->si_addr;

    if (!flips.base || at < flips.base || at >= flips.base + sizeof(struct arena_layout)) {
        static const char text[] = "an access outside of the arena\n";

        if (write(2, text, sizeof(text) - 1) < 0)
            abort();
        signal(signal_number, SIG_DFL);
        return;
    }
    flips.word = (size_t)(at - flips.base) / 4;
    flips.accesses++;
    protect(PROT_READ | PROT_WRITE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)info;
    change_word();
    protect(PROT_NONE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void catch_accesses(void)
{
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGTRAP, &step, NULL);
}

static void step_outside(struct preempt *preempt, uint64_t *random, uint64_t now_ns)
{
    uint64_t again_ns;

    if (world_random(random) % 2)
        preempt_active(preempt, now_ns);
    if (preempt_step(preempt, world_random(random) % 3, now_ns, &again_ns) == PREEMPT_ENDS)
        preempt_leave(preempt, world_random(random) % 2, now_ns);
}

static void flip_for_a_while(uint64_t seed)
{
    struct world *world = world_new(seed, 1);
    struct sched_identity self = {.id = 99, .weight = 100};
    struct preempt preempt;

    assert_int_equal(preempt_join(world->arenas[0], &self, &preempt), 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        struct program program = {
            .kernel_ns = 200 * US, .batch = i, .launch_ns = 20 * US, .gap_ns = 50 * US};

        world_add(world, i + 1, 100 + 100 * i, i, &program, world->now_ns + i * 40 * US);
    }
    world_policy(world, seed % VGPU_TURN_POLICIES);
    run_ms(world, 20);
    flips.base = (char *)world->arenas[0]->layout;
    flips.random = seed * 0x9e3779b97f4a7c15ULL + 1;
    flips.one_in = 1 + seed % 4 * 3;
    flips.accesses = 0;
    protect(PROT_NONE);
    for (unsigned i = 0; i < ROUNDS_MOST && flips.accesses < ACCESSES; i++) {
        flips.now_ns = world->now_ns;
        step_outside(&preempt, &world->random, world->now_ns);
        world_run(world, world->now_ns + 200 * US);
    }
    protect(PROT_READ | PROT_WRITE);
    flips.base = NULL;
    assert_true(flips.accesses >= ACCESSES);
    world_free(world);
}

SLOW_TEST(changed_words)
{
    unsigned changed = 0;

    catch_accesses();
    for (uint64_t seed = 0; seed < 2 * VGPU_TURN_POLICIES; seed++)
        flip_for_a_while(seed);
    for (size_t i = 0; i < WORDS; i++)
        changed += flips.changed[i];
    print_message("%u words of an arena have changed right after an access\n", changed);
    assert_true(changed >= CHANGED_LEAST);
}

#else

TEST(changed_words)
{
    SKIP("x86-64, where a process can step itself");
}

#endif

/*
 * The controller of a cap, in virtual time. A tenant's kernels run on its own device while the
 * tenant is on. Switches and probes take the time and have the effects that were measured
 * (guard/nvidia/probe.c). A probe stops the tenant for a moment, and shows a tenant between two
 * short kernels as half busy.
 */
#include "sched/throttle.h"
#include "unit.h"

#define US        1000ULL
#define MS        NS_PER_MS
#define WINDOW_NS (200 * MS)
#define WINDOWS   500
#define BURST_NS  (100 * MS)

#define ADAPTS_NS (1500 * MS) /* probes are few */

#define COUNTS_NS (200 * US) /* a probe, where nothing can run; */
#define HELD_NS   (330 * US) /* else it stops what runs for so long. */
#define GAP_NS    (200 * US) /* Whose next kernel comes within this does not look idle; */
#define ENDS_NS   (10 * US)  /* one that ends within this is not seen to run. */

struct tenant {
    uint64_t kernel_ns,
        gap_ns;  /* one kernel, then the program does something else for so long, on average */
    bool steady; /* the gap is always the same */
    uint64_t busy_ns, idle_ns; /* it works so long, then nothing; 0: always works */
};

struct machine {
    uint64_t now_ns, random;
    struct tenant tenant;
    bool runs;                      /* the tenant's channels are on, and it is not stopped */
    bool loaded;                    /* something may run, for all that a probe knows */
    uint64_t kernel_left, gap_left; /* one of them is 0 */
    uint64_t idle_from_ns;

    uint64_t on_cost_ns, off_cost_ns, look_cost_ns;
    double stops; /* the part of an off call after which work has stopped */
    bool blind;   /* looks do not tell */
    struct throttle throttle;
    double seen; /* by looks, in all */

    uint64_t gpu_ns, looking_ns, probes, offs, window_end_ns, windows[WINDOWS];
    unsigned window;
    uint64_t begun_ns, burst_ns[1000], bursts; /* GPU time by millisecond, for the last 100 */
    double burst_most_ns;
};

static double random_part(struct machine *machine)
{
    machine->random ^= machine->random << 13;
    machine->random ^= machine->random >> 7;
    machine->random ^= machine->random << 17;
    return (double)(machine->random >> 11) / 9007199254740992.;
}

static void next_gap(struct machine *machine)
{
    const struct tenant *tenant = &machine->tenant;
    double part = tenant->steady ? 1 : .5 + random_part(machine);

    machine->gap_left = (uint64_t)((double)tenant->gap_ns * part) + 1;
    if (tenant->idle_ns && machine->now_ns >= machine->idle_from_ns) {
        machine->gap_left = tenant->idle_ns;
        machine->idle_from_ns = machine->now_ns + tenant->idle_ns + tenant->busy_ns;
    }
}

/* GPU time within the last 100 ms, by millisecond. */
static void count_burst(struct machine *machine, uint64_t ns)
{
    uint64_t slot = machine->now_ns / MS, sum = 0;

    for (uint64_t i = machine->bursts + 1; i <= slot; i++) {
        for (unsigned k = 0; k < 100; k++)
            sum += machine->burst_ns[k];
        if (sum > machine->burst_most_ns)
            machine->burst_most_ns = (double)sum;
        sum = 0;
        machine->burst_ns[i % 100] = 0;
    }
    machine->bursts = slot;
    machine->burst_ns[slot % 100] += ns;
}

/* The tenant up to then, as it is switched now. */
static void run_until(struct machine *machine, uint64_t until_ns)
{
    while (machine->now_ns < until_ns) {
        uint64_t ns = until_ns - machine->now_ns,
                 to_window = machine->window_end_ns - machine->now_ns;

        ns = ns < to_window ? ns : to_window;
        if (machine->gap_left > 0) {
            ns = ns < machine->gap_left ? ns : machine->gap_left;
            machine->gap_left -= ns;
            if (machine->gap_left == 0)
                machine->kernel_left = machine->tenant.kernel_ns;
        } else if (machine->runs) {
            ns = ns < machine->kernel_left ? ns : machine->kernel_left;
            machine->kernel_left -= ns;
            machine->loaded = true;
            machine->gpu_ns += ns;
            machine->windows[machine->window] += ns;
            count_burst(machine, ns);
        }
        machine->now_ns += ns;
        if (machine->gap_left == 0 && machine->kernel_left == 0)
            next_gap(machine);
        if (machine->now_ns == machine->window_end_ns) {
            machine->window_end_ns += WINDOW_NS;
            machine->window += machine->window + 1 < WINDOWS;
        }
    }
}

static void switch_it(struct machine *machine, bool on)
{
    uint64_t begin_ns = machine->now_ns, cost_ns = on ? machine->on_cost_ns : machine->off_cost_ns;

    cost_ns += (uint64_t)(random_part(machine) * 100e3) - 50 * US;
    run_until(machine,
              begin_ns + (uint64_t)((on ? THROTTLE_GOES : machine->stops) * (double)cost_ns));
    machine->runs = on;
    run_until(machine, begin_ns + cost_ns);
    throttle_switched(&machine->throttle, on, begin_ns, machine->now_ns);
    machine->offs += !on;
}

static void probe(struct machine *machine)
{
    uint64_t begin_ns = machine->now_ns;
    double busy = 0;

    run_until(machine, begin_ns + COUNTS_NS);
    if (machine->loaded) {
        if (machine->gap_left == 0 && machine->kernel_left > ENDS_NS)
            busy = 1;
        else
            run_until(machine, machine->now_ns + ENDS_NS);
        machine->runs = false;
        if (busy == 0 && machine->gap_left < GAP_NS)
            busy = .5;
        run_until(machine, machine->now_ns + HELD_NS);
        machine->loaded = busy > 0;
        machine->runs = true;
        run_until(machine, begin_ns + machine->look_cost_ns);
    }
    machine->looking_ns += machine->now_ns - begin_ns;
    machine->probes++;
    machine->seen += busy;
    throttle_probe(&machine->throttle, machine->blind ? 1 : busy, begin_ns, machine->now_ns);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void run_for(struct machine *machine, uint64_t ns)
{
    uint64_t until_ns = machine->now_ns + ns, step_ns, look_ns;
    bool off;

    while (machine->now_ns < until_ns) {
        off = throttle_step(&machine->throttle, machine->now_ns);
        if (off == machine->runs) {
            switch_it(machine, !off);
            continue;
        }
        step_ns = throttle_step_in_ns(&machine->throttle);
        look_ns = throttle_probe_in_ns(&machine->throttle);
        assert_true(step_ns > 0 && look_ns > 0);
        run_until(machine, machine->now_ns +
                               less(less(step_ns, look_ns), until_ns - machine->now_ns) +
                               (uint64_t)(random_part(machine) * 60e3));
        if (look_ns <= step_ns && machine->runs)
            probe(machine);
    }
}

static void measure(struct machine *machine)
{
    machine->window = 0;
    memset(machine->windows, 0, sizeof(machine->windows));
    machine->window_end_ns = machine->now_ns + WINDOW_NS;
    machine->begun_ns = machine->now_ns;
    machine->gpu_ns = machine->looking_ns = machine->probes = machine->offs = 0;
    machine->seen = 0;
    machine->burst_most_ns = 0;
}

static struct machine start(const struct tenant *tenant, unsigned cap_percent, uint64_t seed)
{
    struct machine machine = {
        .now_ns = NS_PER_S,
        .random = seed * 0x9e3779b97f4a7c15ULL + 1,
        .tenant = *tenant,
        .runs = true,
        .kernel_left = tenant->kernel_ns,
        .on_cost_ns = 385 * US,
        .off_cost_ns = 640 * US,
        .look_cost_ns = 800 * US,
        .stops = THROTTLE_STOPS,
        .window_end_ns = UINT64_MAX,
        .bursts = NS_PER_S / MS,
    };

    throttle_init(&machine.throttle, seed + 1, machine.now_ns);
    throttle_cap(&machine.throttle, cap_percent, machine.now_ns);
    machine.idle_from_ns = machine.now_ns + tenant->busy_ns;
    measure(&machine);
    return machine;
}

static double share(const struct machine *machine)
{
    return (double)machine->gpu_ns / (double)(machine->now_ns - machine->begun_ns);
}

static double probing(const struct machine *machine)
{
    return (double)machine->looking_ns / (double)(machine->now_ns - machine->begun_ns);
}

/* Over whole windows; the square of it. */
static double variance(const struct machine *machine)
{
    double mean = 0, sum = 0;

    for (unsigned i = 0; i < machine->window; i++)
        mean += (double)machine->windows[i] / WINDOW_NS / machine->window;
    for (unsigned i = 0; i < machine->window; i++) {
        double apart = (double)machine->windows[i] / WINDOW_NS - mean;

        sum += apart * apart / machine->window;
    }
    return sum;
}

static double root(double square)
{
    double value = 1;

    for (int i = 0; i < 60; i++)
        value = (value + square / value) / 2;
    return value;
}

static void assert_within(double value, double low, double high)
{
    if (value < low || value > high)
        fail_msg("%.5f is not between %.5f and %.5f", value, low, high);
}

/* Who wants more than its cap gets its cap. */
TEST(cap)
{
    static const struct tenant tenants[] = {
        {.kernel_ns = 100 * US, .gap_ns = 8 * US},
        {.kernel_ns = MS, .gap_ns = 8 * US},
        {.kernel_ns = 10 * MS, .gap_ns = 10 * US},
        {.kernel_ns = 50 * MS, .gap_ns = 10 * US},
    };
    static const unsigned caps[] = {5, 10, 25, 50, 75, 90, 95};
    double worst = 0, worst_variance = 0, most_looking = 0;

    for (unsigned i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++)
        for (unsigned k = 0; k < sizeof(caps) / sizeof(caps[0]); k++) {
            double natural =
                (double)tenants[i].kernel_ns / (double)(tenants[i].kernel_ns + tenants[i].gap_ns);
            double cap = caps[k] / 100., wrong;
            struct machine machine = start(&tenants[i], caps[k], 10 * i + k);

            if (natural < cap)
                continue;
            run_for(&machine, 2 * NS_PER_S);
            measure(&machine);
            run_for(&machine, 20 * NS_PER_S);
            wrong = share(&machine) - cap;
            print_message(
                "%8.1f us, %2u %%: %.4f sd %.4f looks %.3f of the time, %.1f switches/s\n",
                (double)tenants[i].kernel_ns / 1e3, caps[k], share(&machine),
                root(variance(&machine)), probing(&machine), (double)machine.offs / 20);
            wrong = wrong < 0 ? -wrong : wrong;
            worst = wrong > worst ? wrong : worst;
            worst_variance =
                variance(&machine) > worst_variance ? variance(&machine) : worst_variance;
            most_looking = probing(&machine) > most_looking ? probing(&machine) : most_looking;
        }
    print_message("worst: %.4f off, sd %.4f, looking %.3f of the time\n", worst,
                  root(worst_variance), most_looking);
    assert_within(worst, 0, .02);
    assert_within(worst_variance, 0, .03 * .03);
    assert_within(most_looking, 0, .125);
}

/* Who uses less than its cap is never switched. */
TEST(below_cap)
{
    static const unsigned uses[] = {20, 30, 40, 50, 60, 70};
    double most_looking = 0;

    for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        for (unsigned above = 5; above <= 20; above += 5)
            for (unsigned steady = 0; steady < 2; steady++) {
                struct tenant tenant = {.kernel_ns = 3 * MS,
                                        .gap_ns = 3 * MS * (100 - uses[i]) / uses[i],
                                        .steady = steady};
                struct machine machine = start(&tenant, uses[i] + above, 100 * i + above + steady);

                run_for(&machine, 60 * NS_PER_S);
                print_message("uses %.4f, cap %.2f: %llu switches, looks %.3f of the time\n",
                              share(&machine), (uses[i] + above) / 100.,
                              (unsigned long long)machine.offs, probing(&machine));
                assert_int_equal(machine.offs, 0);
                most_looking = probing(&machine) > most_looking ? probing(&machine) : most_looking;
            }
    assert_within(most_looking, 0, .125);
}

/*
 * Looks take whoever is between two short kernels for half busy. Of kernels that follow each other
 * at once that is right on average.
 */
TEST(fractions)
{
    static const unsigned caps[] = {25, 50, 75};

    for (unsigned i = 0; i < 3; i++)
        for (unsigned seed = 0; seed < 4; seed++) {
            struct tenant tenant = {.kernel_ns = 100 * US, .gap_ns = 11 * US};
            struct machine machine = start(&tenant, caps[i], 300 + 10 * i + seed);
            double seen, used;

            run_for(&machine, 2 * NS_PER_S);
            used = (double)throttle_used_ns(&machine.throttle);
            measure(&machine);
            run_for(&machine, 20 * NS_PER_S);
            seen = machine.seen / (double)machine.probes;
            used = ((double)throttle_used_ns(&machine.throttle) - used) / 20e9;
            print_message("cap %2u: %.4f, charged %.4f, seen as %.3f while it is on\n", caps[i],
                          share(&machine), used, seen);
            assert_within(seen, .85, .95);
            assert_within(share(&machine), caps[i] / 100. - .02, caps[i] / 100. + .02);
            assert_within(used, caps[i] / 100. - .02, caps[i] / 100. + .02);
        }
}

/* Of kernels with gaps as long as they are it is too much: such a tenant gets less than its cap, by
 * as much. */
TEST(seen_too_busy)
{
    static const struct tenant tenants[] = {
        {.kernel_ns = 100 * US, .gap_ns = 43 * US},
        {.kernel_ns = 100 * US, .gap_ns = 100 * US},
        {.kernel_ns = 3 * US, .gap_ns = 10 * US},
        {.kernel_ns = 100 * US, .gap_ns = 300 * US},
    };
    static const unsigned caps[] = {50, 45, 20, 20};

    for (unsigned i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
        struct machine machine = start(&tenants[i], caps[i], 400 + i);
        double natural = (double)tenants[i].kernel_ns /
                         (double)(tenants[i].kernel_ns + tenants[i].gap_ns),
               seen, gets;

        run_for(&machine, 2 * NS_PER_S);
        measure(&machine);
        run_for(&machine, 20 * NS_PER_S);
        seen = machine.seen / (double)machine.probes;
        gets = caps[i] / 100. * natural / seen;
        print_message("%llu of %llu us, cap %2u: seen as %.3f, gets %.4f, by the looks %.4f\n",
                      (unsigned long long)(tenants[i].kernel_ns / US),
                      (unsigned long long)((tenants[i].kernel_ns + tenants[i].gap_ns) / US),
                      caps[i], seen, share(&machine), gets);
        assert_true(seen > natural);
        assert_within(share(&machine), gets - .03, caps[i] / 100. + .02);
    }
}

/* Who works now and then, and little by and large, is not either, whatever it does while it
 * works. */
TEST(rhythms)
{
    static const struct tenant tenants[] = {
        {.kernel_ns = MS, .gap_ns = 10 * US, .busy_ns = 3 * MS, .idle_ns = 7 * MS},
        {.kernel_ns = MS, .gap_ns = 10 * US, .busy_ns = 4 * MS, .idle_ns = 12 * MS},
        {.kernel_ns = 20 * MS, .gap_ns = 60 * MS, .steady = true},
        {.kernel_ns = 30 * MS, .gap_ns = 70 * MS},
        {.kernel_ns = 3 * US, .gap_ns = 400 * US},
        {.kernel_ns = 4 * MS, .gap_ns = 12 * MS, .steady = true},
        {.kernel_ns = 8 * MS, .gap_ns = 16 * MS, .steady = true},
        {.kernel_ns = 1500 * US, .gap_ns = 3000 * US, .steady = true},
    };

    for (unsigned i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
        struct machine machine = start(&tenants[i], 45, i);

        run_for(&machine, 60 * NS_PER_S);
        print_message("uses %.4f, cap 0.45: %llu switches\n", share(&machine),
                      (unsigned long long)machine.offs);
        assert_int_equal(machine.offs, 0);
    }
}

/* Idleness is no credit beyond the burst. */
TEST(bursts)
{
    static const unsigned caps[] = {5, 25, 50, 75, 95};

    for (unsigned i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        struct tenant tenant = {
            .kernel_ns = MS, .gap_ns = 5 * US, .busy_ns = 400 * MS, .idle_ns = 2000 * MS};
        struct machine machine = start(&tenant, caps[i], 40 + i);
        double bound = caps[i] * 1e6 + (double)(THROTTLE_BURST_NS + THROTTLE_SLACK_NS);

        run_for(&machine, 20 * NS_PER_S);
        print_message("cap %2u: %.1f ms within 100 ms at most, of %.1f\n", caps[i],
                      machine.burst_most_ns / 1e6, bound / 1e6);
        assert_within(machine.burst_most_ns, caps[i] * 1e6, bound);
    }
}

/* What it does changes: from too much to little, and it is let go; and back. */
TEST(changes)
{
    struct tenant hungry = {.kernel_ns = 100 * US, .gap_ns = 8 * US},
                  modest = {.kernel_ns = 100 * US, .gap_ns = 900 * US};
    struct machine machine = start(&hungry, 50, 77);

    for (unsigned i = 0; i < 5; i++) {
        machine.tenant = hungry;
        run_for(&machine, ADAPTS_NS);
        measure(&machine);
        run_for(&machine, 8 * NS_PER_S);
        assert_within(share(&machine), .48, .52);
        machine.tenant = modest;
        measure(&machine);
        run_for(&machine, ADAPTS_NS);
        print_message("after a change: %llu switches", (unsigned long long)machine.offs);
        assert_within((double)machine.offs, 0, 25);
        measure(&machine);
        run_for(&machine, 2 * NS_PER_S);
        print_message(", then %llu\n", (unsigned long long)machine.offs);
        assert_int_equal(machine.offs, 0);
    }
    machine.tenant = hungry;
    throttle_cap(&machine.throttle, 10, machine.now_ns);
    run_for(&machine, ADAPTS_NS);
    measure(&machine);
    run_for(&machine, 4 * NS_PER_S);
    assert_within(share(&machine), .08, .12);
    throttle_cap(&machine.throttle, 100, machine.now_ns);
    run_for(&machine, 10 * MS);
    assert_true(machine.runs);
    measure(&machine);
    run_for(&machine, NS_PER_S);
    assert_int_equal(machine.offs, 0);
}

/* Where looks do not tell, on-time counts. */
TEST(blind)
{
    struct tenant tenant = {.kernel_ns = MS, .gap_ns = MS, .steady = true};
    struct machine machine = start(&tenant, 40, 5);

    machine.blind = true;
    run_for(&machine, 2 * NS_PER_S);
    measure(&machine);
    run_for(&machine, 10 * NS_PER_S);
    assert_within(share(&machine), .15, .3);
    assert_within((double)throttle_used_ns(&machine.throttle) / 12e9, .38, .43);
}

/* Times that make no sense do no harm. */
TEST(nonsense)
{
    struct throttle throttle;

    throttle_init(&throttle, 0, NS_PER_S);
    assert_false(throttle_step(&throttle, NS_PER_S));
    assert_int_equal(throttle_probe_in_ns(&throttle), UINT64_MAX);
    assert_int_equal(throttle_step_in_ns(&throttle), UINT64_MAX);
    throttle_cap(&throttle, 30, NS_PER_S);
    throttle_probe(&throttle, 1, 0, 1);
    throttle_switched(&throttle, false, 5, 3);
    throttle_switched(&throttle, true, 5, 3);
    assert_false(throttle_step(&throttle, 7));
    assert_true(throttle_probe_in_ns(&throttle) < NS_PER_S);
    for (unsigned i = 1; i < 100; i++) {
        throttle_cap(&throttle, i, NS_PER_S);
        throttle_probe(&throttle, i % 3 / 2., 2 * NS_PER_S + i * NS_PER_S, (2 + i) * NS_PER_S);
        assert_true(throttle_step_in_ns(&throttle) > 0);
    }
    throttle_cap(&throttle, 1000, 200 * NS_PER_S);
    assert_false(throttle_step(&throttle, 200 * NS_PER_S));
}

#include "sched/throttle.h"

#include "base/random.h"

#define BURST_NS ((double)THROTTLE_BURST_NS)

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* How far the excess goes up and down while the tenant is held. */
static double band(double cap)
{
    double period_ns = most(THROTTLE_PERIOD_NS,
                            most(THROTTLE_ON_LEAST_NS / cap, THROTTLE_OFF_LEAST_NS / (1 - cap)));

    return period_ns * cap * (1 - cap);
}

static double fraction(struct throttle *throttle)
{
    return (double)(random_next(&throttle->random) >> 11) / 9007199254740992.;
}

static void plan_look(struct throttle *throttle)
{
    double ns, cost_ns = throttle->look_cost_ns;

    if (throttle->held)
        ns = most(THROTTLE_HELD_PROBE_NS, THROTTLE_PROBE_PART * cost_ns);
    else if (throttle->excess_ns > BURST_NS / 3)
        ns = most(THROTTLE_CLOSE_PROBE_NS, THROTTLE_CLOSE_PROBE_PART * cost_ns);
    else
        ns = most(throttle->busy || throttle->excess_ns > 0 ? THROTTLE_PROBE_NS
                                                            : THROTTLE_IDLE_PROBE_NS,
                  THROTTLE_PROBE_PART * cost_ns);
    throttle->probe_in_ns = least(ns, THROTTLE_PROBE_MOST_NS) * (.5 + fraction(throttle));
}

void throttle_init(struct throttle *throttle, uint64_t seed, uint64_t now_ns)
{
    *throttle = (struct throttle){
        .on = true,
        .at_ns = now_ns,
        .on_since_ns = now_ns,
        .goes_ns = THROTTLE_GOES * THROTTLE_GOES_FIRST_NS,
        .stops_ns = THROTTLE_STOPS * THROTTLE_STOPS_FIRST_NS,
        .look_cost_ns = THROTTLE_PROBE_FIRST_NS,
        .random = seed ? seed : 1,
    };
    plan_look(throttle);
}

/* Charges for the time up to now. */
static void advance(struct throttle *throttle, uint64_t now_ns)
{
    uint64_t from_ns = throttle->at_ns;
    double on_ns = 0;

    if (now_ns <= from_ns)
        return;
    throttle->at_ns = now_ns;
    throttle->excess_ns -= throttle->cap * (double)(now_ns - from_ns);
    if (throttle->on_since_ns > from_ns)
        from_ns = throttle->on_since_ns;
    if (throttle->on && now_ns > from_ns)
        on_ns = (double)(now_ns - from_ns);
    throttle->probe_in_ns -= on_ns;
    throttle->on_ns += on_ns;
    if (throttle->held) {
        throttle->used_ns += throttle->rate * on_ns;
        throttle->excess_ns = most(0, throttle->excess_ns + throttle->rate * on_ns);
    }
}

void throttle_cap(struct throttle *throttle, unsigned percent, uint64_t now_ns)
{
    double cap = percent >= 1 && percent <= 99 ? percent / 100. : 0;

    if (cap == throttle->cap)
        return;
    advance(throttle, now_ns);
    /* Earlier use does not count against this cap. */
    if (!throttle->held)
        throttle->used_ns += throttle->rate * throttle->on_ns;
    throttle->on_ns = 0;
    throttle->cap = cap;
    if (cap == 0)
        throttle->held = throttle->resting = false;
    throttle->excess_ns = cap == 0 ? 0 : least(throttle->excess_ns, BURST_NS);
    throttle->chance = 0;
    plan_look(throttle);
}

static void learn(double *average, double value, double weight)
{
    *average += (value - *average) * weight;
}

static double cost(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? least((double)(end_ns - begin_ns), THROTTLE_COST_MOST_NS) : 0;
}

void throttle_switched(struct throttle *throttle, bool on, uint64_t begin_ns, uint64_t end_ns)
{
    double cost_ns = cost(begin_ns, end_ns);

    if (on == throttle->on)
        return;
    if (on) {
        learn(&throttle->goes_ns, THROTTLE_GOES * cost_ns, .1);
        advance(throttle, begin_ns);
        throttle->on_since_ns = begin_ns + (uint64_t)(THROTTLE_GOES * cost_ns);
    } else {
        learn(&throttle->stops_ns, THROTTLE_STOPS * cost_ns, .1);
        advance(throttle, begin_ns + (uint64_t)(THROTTLE_STOPS * cost_ns));
    }
    throttle->on = on;
}

/* Learns both estimates. Where the quick one contradicts the slow one, it replaces it. */
static void learn_rate(struct throttle *throttle, double busy)
{
    double quick_ns = THROTTLE_QUICK_PROBES *
                      most(THROTTLE_HELD_PROBE_NS, THROTTLE_PROBE_PART * throttle->look_cost_ns),
           apart, variance;

    learn(&throttle->quick, busy, least(1, throttle->on_ns / quick_ns));
    throttle->learned_ns = least(throttle->learned_ns + throttle->on_ns, THROTTLE_SLOW_NS);
    learn(&throttle->rate, busy, least(1, throttle->on_ns / throttle->learned_ns));
    apart = throttle->quick - throttle->rate;
    variance = throttle->rate * (1 - throttle->rate) / 2 / THROTTLE_QUICK_PROBES;
    if (apart * apart >
        most(THROTTLE_FAR * THROTTLE_FAR, THROTTLE_FAR_DOUBT * THROTTLE_FAR_DOUBT * variance)) {
        throttle->rate = throttle->quick;
        throttle->learned_ns = quick_ns;
    }
}

/* Charges the difference between a probe's result and the charges since the last one, slowly. */
static void settle(struct throttle *throttle, double busy)
{
    double part = least(1, throttle->on_ns / THROTTLE_SETTLE_NS), ns;

    throttle->owed_ns += (busy - throttle->rate) * throttle->on_ns;
    ns = throttle->owed_ns * part;
    throttle->owed_ns -= ns;
    throttle->used_ns += ns;
    throttle->excess_ns = most(0, throttle->excess_ns + ns);
}

/* Whether the excess is larger than a burst and than chance makes of a tenant at its cap. */
static bool too_much(const struct throttle *throttle)
{
    return throttle->excess_ns > BURST_NS && throttle->excess_ns * throttle->excess_ns >
                                                 THROTTLE_DOUBT * THROTTLE_DOUBT * throttle->chance;
}

/* Charges a probe's result for the time since the last one. */
static void charge(struct throttle *throttle, double busy, double lost_ns)
{
    double used_ns = most(0, busy * throttle->on_ns - lost_ns);

    throttle->used_ns += used_ns;
    if (throttle->cap == 0)
        return;
    throttle->excess_ns += used_ns;
    throttle->chance += throttle->on_ns * throttle->on_ns * throttle->cap * (1 - throttle->cap);
    if (throttle->excess_ns <= 0)
        throttle->excess_ns = throttle->chance = 0;
    if (!too_much(throttle))
        return;
    throttle->held = true;
    throttle->excess_ns = BURST_NS;
    throttle->rate = most(throttle->quick, throttle->cap);
    throttle->learned_ns = THROTTLE_QUICK_PROBES * THROTTLE_HELD_PROBE_NS;
    throttle->owed_ns = 0;
}

void throttle_probe(struct throttle *throttle, double busy, uint64_t begin_ns, uint64_t end_ns)
{
    double lost_ns = THROTTLE_LOST * busy * cost(begin_ns, end_ns);

    learn(&throttle->look_cost_ns, cost(begin_ns, end_ns), .1);
    advance(throttle, end_ns);
    if (!throttle->on || throttle->on_ns <= 0)
        return;
    throttle->busy = busy > 0;
    if (throttle->held) {
        throttle->used_ns -= lost_ns;
        throttle->excess_ns = most(0, throttle->excess_ns - lost_ns);
        settle(throttle, busy);
    }
    learn_rate(throttle, busy);
    if (!throttle->held)
        charge(throttle, busy, lost_ns);
    throttle->on_ns = 0;
    plan_look(throttle);
}

bool throttle_step(struct throttle *throttle, uint64_t now_ns)
{
    double more = throttle->rate - throttle->cap;

    advance(throttle, now_ns);
    if (!throttle->held)
        return false;
    if (throttle->resting) {
        throttle->resting = throttle->excess_ns - throttle->cap * throttle->goes_ns >
                            BURST_NS - band(throttle->cap);
    } else if (throttle->excess_ns < BURST_NS / 2) {
        throttle->held = false;
        throttle->on_ns = throttle->chance = 0;
    } else {
        throttle->resting = more > 0 && throttle->excess_ns + more * throttle->stops_ns >= BURST_NS;
    }
    return throttle->resting;
}

static uint64_t whole(double ns)
{
    return ns > 1 ? (uint64_t)ns : 1;
}

uint64_t throttle_step_in_ns(const struct throttle *throttle)
{
    double more = throttle->rate - throttle->cap;

    if (!throttle->held)
        return UINT64_MAX;
    if (throttle->resting)
        return whole((throttle->excess_ns - BURST_NS + band(throttle->cap)) / throttle->cap -
                     throttle->goes_ns);
    if (!throttle->on || more <= 0)
        return UINT64_MAX;
    return whole((BURST_NS - throttle->excess_ns) / more - throttle->stops_ns);
}

uint64_t throttle_probe_in_ns(const struct throttle *throttle)
{
    uint64_t late_ns =
        throttle->on_since_ns > throttle->at_ns ? throttle->on_since_ns - throttle->at_ns : 0;

    if (throttle->cap == 0 || !throttle->on)
        return UINT64_MAX;
    return late_ns + whole(throttle->probe_in_ns);
}

uint64_t throttle_used_ns(const struct throttle *throttle)
{
    return (uint64_t)most(0, throttle->used_ns);
}

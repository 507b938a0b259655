#include "core/duty.h"

#define MS 1e6

#define BURST_NS ((double)DUTY_BURST_NS)
/* Chance takes a tenant that is at its cap so many standard deviations beyond it once in hours. */
#define DOUBT 4.5

#define PERIOD_NS    (25 * MS) /* of switching, but */
#define ON_LEAST_NS  (2 * MS)  /* no shorter than these */
#define OFF_LEAST_NS (1 * MS)

/* On-time between looks, on average: of who is far from its cap, is using it, is close to the burst, is held. */
#define IDLE_LOOK_NS  (8 * MS)
#define LOOK_NS       (4 * MS)
#define CLOSE_LOOK_NS (1.5 * MS)
#define HELD_LOOK_NS  (3 * MS)
/* No more of the time goes into them than one part in so many. */
#define LOOK_PART       20
#define CLOSE_LOOK_PART 8
#define LOOK_MOST_NS    (50 * MS) /* whatever a look costs */

/* What the two estimates of how busy the tenant is are made of; how far apart they contradict each other; over which
 * time what was charged by estimate is put right. */
#define QUICK_LOOKS 12
#define SLOW_NS     (3000 * MS)
#define FAR         .35
#define FAR_DOUBT   4.5 /* and that by so many standard deviations */
#define SETTLE_NS   (4000 * MS)

#define COST_MOST_NS (20 * MS) /* what took longer was something else */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* By how much the excess goes up and down while the tenant is held. */
static double band(double cap)
{
    double period_ns = most(PERIOD_NS, most(ON_LEAST_NS / cap, OFF_LEAST_NS / (1 - cap)));

    return period_ns * cap * (1 - cap);
}

static double fraction(struct duty *duty)
{
    uint64_t *state = &duty->random;

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.;
}

static void plan_look(struct duty *duty)
{
    double ns, cost_ns = duty->look_cost_ns;

    if (duty->held)
        ns = most(HELD_LOOK_NS, LOOK_PART * cost_ns);
    else if (duty->excess_ns > BURST_NS / 3)
        ns = most(CLOSE_LOOK_NS, CLOSE_LOOK_PART * cost_ns);
    else
        ns = most(duty->busy || duty->excess_ns > 0 ? LOOK_NS : IDLE_LOOK_NS, LOOK_PART * cost_ns);
    duty->look_in_ns = least(ns, LOOK_MOST_NS) * (.5 + fraction(duty));
}

void duty_init(struct duty *duty, uint64_t seed, uint64_t now_ns)
{
    *duty = (struct duty){
        .on = true,
        .at_ns = now_ns,
        .on_since_ns = now_ns,
        .goes_ns = DUTY_GOES * .4 * MS,
        .stops_ns = DUTY_STOPS * .65 * MS,
        .look_cost_ns = .8 * MS,
        .random = seed ? seed : 1,
    };
    plan_look(duty);
}

/* Charges for the time up to now. */
static void advance(struct duty *duty, uint64_t now_ns)
{
    uint64_t from_ns = duty->at_ns;
    double on_ns = 0;

    if (now_ns <= from_ns)
        return;
    duty->at_ns = now_ns;
    duty->excess_ns -= duty->cap * (double)(now_ns - from_ns);
    if (duty->on_since_ns > from_ns)
        from_ns = duty->on_since_ns;
    if (duty->on && now_ns > from_ns)
        on_ns = (double)(now_ns - from_ns);
    duty->look_in_ns -= on_ns;
    duty->on_ns += on_ns;
    if (duty->held) {
        duty->used_ns += duty->rate * on_ns;
        duty->excess_ns = most(0, duty->excess_ns + duty->rate * on_ns);
    }
}

void duty_cap(struct duty *duty, unsigned percent, uint64_t now_ns)
{
    double cap = percent >= 1 && percent <= 99 ? percent / 100. : 0;

    if (cap == duty->cap)
        return;
    advance(duty, now_ns);
    /* What it did before is no matter of this cap. */
    if (!duty->held)
        duty->used_ns += duty->rate * duty->on_ns;
    duty->on_ns = 0;
    duty->cap = cap;
    if (cap == 0)
        duty->held = duty->resting = false;
    duty->excess_ns = cap == 0 ? 0 : least(duty->excess_ns, BURST_NS);
    duty->chance = 0;
    plan_look(duty);
}

static void learn(double *average, double value, double weight)
{
    *average += (value - *average) * weight;
}

static double cost(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? least((double)(end_ns - begin_ns), COST_MOST_NS) : 0;
}

void duty_switched(struct duty *duty, bool on, uint64_t begin_ns, uint64_t end_ns)
{
    double cost_ns = cost(begin_ns, end_ns);

    if (on == duty->on)
        return;
    if (on) {
        learn(&duty->goes_ns, DUTY_GOES * cost_ns, .1);
        advance(duty, begin_ns);
        duty->on_since_ns = begin_ns + (uint64_t)(DUTY_GOES * cost_ns);
    } else {
        learn(&duty->stops_ns, DUTY_STOPS * cost_ns, .1);
        advance(duty, begin_ns + (uint64_t)(DUTY_STOPS * cost_ns));
    }
    duty->on = on;
}

/* The slow estimate, and a new one where the quick one contradicts it. */
static void learn_rate(struct duty *duty, double busy)
{
    double quick_ns = QUICK_LOOKS * most(HELD_LOOK_NS, LOOK_PART * duty->look_cost_ns), apart, variance;

    learn(&duty->quick, busy, least(1, duty->on_ns / quick_ns));
    duty->learned_ns = least(duty->learned_ns + duty->on_ns, SLOW_NS);
    learn(&duty->rate, busy, least(1, duty->on_ns / duty->learned_ns));
    apart = duty->quick - duty->rate;
    variance = duty->rate * (1 - duty->rate) / 2 / QUICK_LOOKS;
    if (apart * apart > most(FAR * FAR, FAR_DOUBT * FAR_DOUBT * variance)) {
        duty->rate = duty->quick;
        duty->learned_ns = quick_ns;
    }
}

/* What the look says of the time since the last one, and what was charged for that: the difference is charged slowly.
 */
static void settle(struct duty *duty, double busy)
{
    double part = least(1, duty->on_ns / SETTLE_NS), ns;

    duty->owed_ns += (busy - duty->rate) * duty->on_ns;
    ns = duty->owed_ns * part;
    duty->owed_ns -= ns;
    duty->used_ns += ns;
    duty->excess_ns = most(0, duty->excess_ns + ns);
}

/* Whether the excess is more than a burst, and more than chance makes of a tenant that is at its cap. */
static bool too_much(const struct duty *duty)
{
    return duty->excess_ns > BURST_NS && duty->excess_ns * duty->excess_ns > DOUBT * DOUBT * duty->chance;
}

/* What the look says of the time since the last one. */
static void charge(struct duty *duty, double busy, double lost_ns)
{
    double used_ns = most(0, busy * duty->on_ns - lost_ns);

    duty->used_ns += used_ns;
    if (duty->cap == 0)
        return;
    duty->excess_ns += used_ns;
    duty->chance += duty->on_ns * duty->on_ns * duty->cap * (1 - duty->cap);
    if (duty->excess_ns <= 0)
        duty->excess_ns = duty->chance = 0;
    if (!too_much(duty))
        return;
    duty->held = true;
    duty->excess_ns = BURST_NS;
    duty->rate = most(duty->quick, duty->cap);
    duty->learned_ns = QUICK_LOOKS * HELD_LOOK_NS;
    duty->owed_ns = 0;
}

void duty_look(struct duty *duty, double busy, uint64_t begin_ns, uint64_t end_ns)
{
    double lost_ns = DUTY_LOST * busy * cost(begin_ns, end_ns);

    learn(&duty->look_cost_ns, cost(begin_ns, end_ns), .1);
    advance(duty, end_ns);
    if (!duty->on || duty->on_ns <= 0)
        return;
    duty->busy = busy > 0;
    if (duty->held) {
        duty->used_ns -= lost_ns;
        duty->excess_ns = most(0, duty->excess_ns - lost_ns);
        settle(duty, busy);
    }
    learn_rate(duty, busy);
    if (!duty->held)
        charge(duty, busy, lost_ns);
    duty->on_ns = 0;
    plan_look(duty);
}

bool duty_step(struct duty *duty, uint64_t now_ns)
{
    double more = duty->rate - duty->cap;

    advance(duty, now_ns);
    if (!duty->held)
        return false;
    if (duty->resting) {
        duty->resting = duty->excess_ns - duty->cap * duty->goes_ns > BURST_NS - band(duty->cap);
    } else if (duty->excess_ns < BURST_NS / 2) {
        duty->held = false;
        duty->on_ns = duty->chance = 0;
    } else {
        duty->resting = more > 0 && duty->excess_ns + more * duty->stops_ns >= BURST_NS;
    }
    return duty->resting;
}

static uint64_t whole(double ns)
{
    return ns > 1 ? (uint64_t)ns : 1;
}

uint64_t duty_step_in_ns(const struct duty *duty)
{
    double more = duty->rate - duty->cap;

    if (!duty->held)
        return UINT64_MAX;
    if (duty->resting)
        return whole((duty->excess_ns - BURST_NS + band(duty->cap)) / duty->cap - duty->goes_ns);
    if (!duty->on || more <= 0)
        return UINT64_MAX;
    return whole((BURST_NS - duty->excess_ns) / more - duty->stops_ns);
}

uint64_t duty_look_in_ns(const struct duty *duty)
{
    uint64_t late_ns = duty->on_since_ns > duty->at_ns ? duty->on_since_ns - duty->at_ns : 0;

    if (duty->cap == 0 || !duty->on)
        return UINT64_MAX;
    return late_ns + whole(duty->look_in_ns);
}

uint64_t duty_used_ns(const struct duty *duty)
{
    return (uint64_t)most(0, duty->used_ns);
}

/*
 * When to look whether a tenant has work, and what to make of it. A look is a call to the card's firmware and shows one
 * moment: a program that waits for each of its kernels has none at some moments although it works all the time, and one
 * that does next to nothing has some now and then. So it takes several looks to change what is believed; the first one
 * that contradicts it is followed by others soon.
 */
#include "base/clock.h"
#include "guard/share_internal.h"

#define US 1000ULL
#define MS 1000000ULL

/* The usual time between looks. */
#define LONE_NS      (50 * MS) /* for what people see, and so that others know that the device is used */
#define HOLDS_NS     (1 * MS)  /* it has the device, and others wait */
#define UNCLAIMED_NS (20 * MS) /* and nobody waits */
/* It has nothing to do; for longer than LATE_NS, than VERY_LATE_NS. */
#define ASIDE_NS           (1600 * US)
#define ASIDE_LATE_NS      (4 * MS)
#define ASIDE_VERY_LATE_NS (8 * MS)
#define OFF_NS             (1500 * US)
#define SOON_NS            (300 * US)
/* Others may come and wait without being noticed otherwise: a step, without a look. */
#define STEP_NS (1 * MS)

#define LATE_NS      (1000 * MS)
#define VERY_LATE_NS (10000 * MS)
#define COSTLY       6u   /* no look before so many times what one takes */
#define SLACK_NS     1000 /* a look is not worth another step */

#define IDLE_LOOKS    3u /* in a row, */
#define IDLE_LEAST_NS (600 * US)
#define BUSY_LOOKS    2u

static uint32_t random_bits(struct share *share)
{
    uint64_t *state = &share->random;

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 20);
}

void share_looks_init(struct share *share, uint64_t now_ns)
{
    share->idle = true;
    share->looked_ns = share->idle_ns = share->said_ns = now_ns;
    share->cost_ns = 100 * US;
    share->part = 1024;
    if (share->random == 0)
        share->random = 1;
}

void share_looks_switched(struct share *share, uint64_t now_ns)
{
    share->looked_off = false;
    share->looked_ns = now_ns;
}

static bool waits(const struct share *share)
{
    return share->joined && share->outside.contended && share->outside.waiting_ns;
}

static bool claimed(const struct share *share)
{
    return atomic_load(&share->arena->layout->waiting) > 0;
}

static uint64_t aside_ns(uint64_t idle_ns)
{
    return idle_ns < LATE_NS ? ASIDE_NS : idle_ns < VERY_LATE_NS ? ASIDE_LATE_NS : ASIDE_VERY_LATE_NS;
}

/* 0: none is needed, as things are. */
static uint64_t usual_ns(const struct share *share, uint64_t now_ns)
{
    bool company = share->joined && (share->outside.contended || share->outside.others);

    if (!share->on)
        return share->paused || share->throttled_ns || share->looked_off || !waits(share) ? 0
               : share->last_busy == !share->idle                                         ? OFF_NS
                                                                                          : SOON_NS;
    if (!company)
        return LONE_NS;
    if (share->last_busy == share->idle)
        return SOON_NS;
    if (share->idle)
        return aside_ns(now_ns - share->idle_ns);
    return claimed(share) ? HOLDS_NS : UNCLAIMED_NS;
}

static uint64_t look_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t usual = usual_ns(share, now_ns), least_ns = COSTLY * share->cost_ns, ns, duty_ns;

    duty_ns = duty_look_in_ns(&share->duty);
    if (usual == 0)
        return duty_ns;
    /* Looks that settle a doubt are few. */
    if (usual != SOON_NS && usual < least_ns)
        usual = least_ns;
    ns = usual * share->part / 1024;
    ns = share->looked_ns + ns > now_ns ? share->looked_ns + ns - now_ns : 0;
    return ns < duty_ns ? ns : duty_ns;
}

uint64_t share_looks_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t ns = look_in_ns(share, now_ns);

    if (share->joined && share->outside.contended && share->on && ns > STEP_NS)
        ns = STEP_NS;
    return ns;
}

static void believe(struct share *share, bool busy, uint64_t now_ns)
{
    if (busy != share->last_busy) {
        share->last_busy = busy;
        share->in_a_row = 0;
        share->said_ns = now_ns;
    }
    share->in_a_row++;
    if (busy == !share->idle)
        return;
    if (busy ? share->in_a_row >= BUSY_LOOKS
             : share->in_a_row >= IDLE_LOOKS && now_ns - share->said_ns >= IDLE_LEAST_NS) {
        share->idle = !busy;
        share->idle_ns = now_ns;
    }
}

static void look(struct share *share)
{
    uint64_t begin_ns = clock_ns(), end_ns, cost_ns;
    int rc = share->ops.busy(share->arg);
    bool busy = rc != 0;

    end_ns = clock_ns();
    cost_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
    if (cost_ns < 10 * MS)
        share->cost_ns = (7 * share->cost_ns + cost_ns) / 8;
    duty_look(&share->duty, busy, begin_ns, end_ns);
    believe(share, busy, end_ns);
    share->looked_ns = end_ns;
    share->looked_off = share->looked_off || (!share->on && busy);
    share->part = 512 + random_bits(share) % 1024;
    if (busy && share->joined)
        outside_active(&share->outside, end_ns);
}

void share_looks_step(struct share *share)
{
    if (look_in_ns(share, clock_ns()) <= SLACK_NS)
        look(share);
}

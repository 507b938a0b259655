#include "sched/bucket.h"

/* The word, or now if the word is damaged. */
static uint64_t sane(uint64_t word, uint64_t now_ns)
{
    return word > now_ns && word - now_ns > BUCKET_INSANE_NS ? now_ns : word;
}

static uint64_t add_debt(uint64_t paid_until_ns, uint64_t now_ns, uint64_t ns)
{
    uint64_t most = now_ns + BUCKET_DEBT_MAX_NS;

    if (paid_until_ns >= most) /* another process's clock is a little ahead */
        return paid_until_ns;
    return ns < most - paid_until_ns ? paid_until_ns + ns : most;
}

static uint64_t scaled(uint64_t cost_ns, unsigned percent)
{
    if (cost_ns > BUCKET_DEBT_MAX_NS)
        cost_ns = BUCKET_DEBT_MAX_NS;
    return cost_ns * 100 / (percent > 100 ? 100 : percent);
}

static uint64_t scaled_bytes(uint64_t bytes, uint64_t bytes_per_s)
{
    double ns = (double)bytes * 1e9 / (double)bytes_per_s;

    return ns < (double)BUCKET_DEBT_MAX_NS ? (uint64_t)ns : BUCKET_DEBT_MAX_NS;
}

static bool replace(_Atomic uint64_t *word, uint64_t *old, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(word, old, value, memory_order_relaxed,
                                                 memory_order_relaxed);
}

/* A waiter waits for all of the debt: waits are few, and each is worth a sleep. */
static uint64_t owed(uint64_t paid_until_ns, uint64_t now_ns)
{
    return paid_until_ns > now_ns + BUCKET_SLACK_NS ? paid_until_ns - now_ns : 0;
}

static uint64_t burst_before(uint64_t now_ns)
{
    return now_ns > BUCKET_BURST_NS ? now_ns - BUCKET_BURST_NS : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t take(_Atomic uint64_t *word, uint64_t now_ns, uint64_t ns, uint64_t *ret_until_ns)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed), paid;

    do {
        paid = sane(old, now_ns);
        if (owed(paid, now_ns) > 0)
            return owed(paid, now_ns);
        *ret_until_ns = add_debt(larger(paid, burst_before(now_ns)), now_ns, ns);
    } while (!replace(word, &old, *ret_until_ns));
    return 0;
}

uint64_t bucket_wait(const _Atomic uint64_t *paid_until_ns, uint64_t now_ns)
{
    return owed(sane(atomic_load_explicit(paid_until_ns, memory_order_relaxed), now_ns), now_ns);
}

uint64_t bucket_take_and_hold(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t cost_ns,
                              uint64_t hold_ns, unsigned percent, struct bucket_hold *ret_hold)
{
    struct bucket_hold hold = {.ns = percent > 0 ? hold_ns : 0, .percent = percent};
    uint64_t wait_ns = 0;

    if (percent > 0)
        wait_ns = take(paid_until_ns, now_ns, scaled(cost_ns, percent) + scaled(hold_ns, percent),
                       &hold.until_ns);
    if (wait_ns == 0)
        *ret_hold = hold;
    return wait_ns;
}

uint64_t bucket_take_bytes(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t bytes,
                           uint64_t bytes_per_s)
{
    uint64_t until_ns;

    return bytes_per_s > 0
               ? take(paid_until_ns, now_ns, scaled_bytes(bytes, bytes_per_s), &until_ns)
               : 0;
}

/* Idle time since the charge does not matter: the word becomes what a right charge had made it. */
void bucket_correct(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                    unsigned percent)
{
    uint64_t old = atomic_load_explicit(paid_until_ns, memory_order_relaxed), paid, ns;

    if (percent == 0)
        return;
    ns = scaled(delta_ns < 0 ? 0 - (uint64_t)delta_ns : (uint64_t)delta_ns, percent);
    do {
        paid = sane(old, now_ns);
        if (delta_ns >= 0)
            paid = add_debt(paid, now_ns, ns);
        else
            paid = paid > ns ? paid - ns : 0;
    } while (!replace(paid_until_ns, &old, paid));
}

bool bucket_settle(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                   const struct bucket_hold *hold, unsigned percent)
{
    /* At another percentage `until_ns` is wrong, and the hold is given back in any case. */
    bool back =
        hold->ns == 0 || hold->percent != percent || now_ns + BUCKET_SLACK_NS < hold->until_ns;

    if (back || delta_ns > (int64_t)hold->ns)
        bucket_correct(paid_until_ns, now_ns, delta_ns - (int64_t)hold->ns, percent);
    return back;
}

void bucket_started(_Atomic uint64_t *paid_until_ns, uint64_t started_ns, uint64_t cost_ns,
                    unsigned percent)
{
    uint64_t old = atomic_load_explicit(paid_until_ns, memory_order_relaxed), least;

    if (percent == 0)
        return;
    least = burst_before(started_ns) + scaled(cost_ns, percent);
    while (sane(old, started_ns) < least && !replace(paid_until_ns, &old, least))
        ;
}

void bucket_rescale(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, unsigned old_percent,
                    unsigned new_percent)
{
    uint64_t old = atomic_load_explicit(paid_until_ns, memory_order_relaxed), paid;

    if (old_percent == 0)
        return;
    do {
        paid = sane(old, now_ns);
        if (paid > now_ns)
            paid = new_percent == 0
                       ? now_ns
                       : add_debt(now_ns, now_ns,
                                  scaled((paid - now_ns) * old_percent / 100, new_percent));
    } while (!replace(paid_until_ns, &old, paid));
}

#include "core/bucket.h"

#include <stdbool.h>

/* Paid until when, if nonsense is now. */
static uint64_t sane(uint64_t word, uint64_t now_ns)
{
    return word > now_ns && word - now_ns > BUCKET_INSANE_NS ? now_ns : word;
}

static uint64_t add_debt(uint64_t paid_until_ns, uint64_t now_ns, uint64_t ns)
{
    uint64_t most = now_ns + BUCKET_DEBT_MAX_NS;

    if (paid_until_ns >= most) /* the clock of another is a little ahead */
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
    return atomic_compare_exchange_weak_explicit(word, old, value, memory_order_relaxed, memory_order_relaxed);
}

/* What is waited for is all of the debt, so that waits are few and each is worth a sleep. */
static uint64_t take(_Atomic uint64_t *word, uint64_t now_ns, uint64_t ns)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed), paid;

    do {
        paid = sane(old, now_ns);
        if (paid > now_ns + BUCKET_SLACK_NS)
            return paid - now_ns;
        if (now_ns > BUCKET_BURST_NS && paid < now_ns - BUCKET_BURST_NS)
            paid = now_ns - BUCKET_BURST_NS;
    } while (!replace(word, &old, add_debt(paid, now_ns, ns)));
    return 0;
}

uint64_t bucket_take(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t cost_ns, unsigned percent)
{
    return percent > 0 ? take(paid_until_ns, now_ns, scaled(cost_ns, percent)) : 0;
}

uint64_t bucket_take_bytes(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t bytes, uint64_t bytes_per_s)
{
    return bytes_per_s > 0 ? take(paid_until_ns, now_ns, scaled_bytes(bytes, bytes_per_s)) : 0;
}

/* Idle time that has passed since is not looked at: the word becomes what it would be, had the charge been right. */
void bucket_correct(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns, unsigned percent)
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

void bucket_rescale(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, unsigned old_percent, unsigned new_percent)
{
    uint64_t old = atomic_load_explicit(paid_until_ns, memory_order_relaxed), paid;

    if (old_percent == 0)
        return;
    do {
        paid = sane(old, now_ns);
        if (paid > now_ns)
            paid = new_percent == 0
                       ? now_ns
                       : add_debt(now_ns, now_ns, scaled((paid - now_ns) * old_percent / 100, new_percent));
    } while (!replace(paid_until_ns, &old, paid));
}

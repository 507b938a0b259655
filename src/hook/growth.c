/*
 * Charging what the driver sizes on its own: see growth.h.
 */
#include "hook/growth.h"

#include "hook/capture.h"
#include "hook/charge.h"

#define TAIL_STEP_BYTES 512 /* how a pool aligns what it gives */

void growth_init(struct growth *growth, unsigned vdev, enum vgpu_kind kind, const struct growth_driver *driver)
{
    mutex_init(&growth->lock);
    growth->driver = driver;
    growth->vdev = vdev;
    growth->kind = kind;
}

/* Under the lock. */
static bool read_bytes(const struct growth *growth, uint64_t *ret_bytes)
{
    struct capture_mode mode;
    bool known;

    if (growth->detached)
        return false;
    mode = capture_enter();
    known = growth->driver->read(growth, ret_bytes);
    capture_leave(&mode);
    return known;
}

/* Under the lock: what is to stay charged where it shrank. Calls under way may bring back what they count on. */
static uint64_t retain(struct growth *growth, uint64_t charged, uint64_t reserved)
{
    uint64_t gone = reserved < charged ? charged - reserved : 0;
    uint64_t kept = gone < growth->claimed_bytes ? gone : growth->claimed_bytes;

    if (growth->retained != (kept > 0)) {
        growth->retained = kept > 0;
        if (growth->retained)
            charge_free_begins();
        else
            charge_free_ends();
    }
    if (gone > kept) {
        charge_free_begins();
        charge_free_ends();
    }
    return reserved + kept;
}

/*
 * Under the lock: charges what was added (or gives back what went away) since the last look. `taken_bytes` of the pot
 * are the caller's and leave it; of the rest stays what the other calls under way may still need.
 */
static int settle(struct growth *growth, struct vgpu_ledger *ledger, uint64_t taken_bytes)
{
    uint64_t charged = atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed);
    uint64_t reserved = charged;
    uint64_t pledged, pot, others, left;
    int64_t grown;
    int rc = 0;

    if (!read_bytes(growth, &reserved))
        reserved = charged;
    if (reserved < charged || growth->retained)
        reserved = retain(growth, charged, reserved);
    grown = (int64_t)(reserved - charged);
    /* Read after the size: every call that can have grown it is in here. */
    pledged = atomic_load(&growth->pledged_bytes);
    pot = pledged - growth->spent_bytes;
    others = pledged - taken_bytes;
    left = pot;
    if (grown > 0)
        left = pot > (uint64_t)grown ? pot - (uint64_t)grown : 0;
    if (left > others)
        left = others;
    if (pot != left || grown != 0)
        rc = ledger_settle(ledger, growth->vdev, growth->kind, pot - left, grown);
    growth->spent_bytes = others - left;
    if (taken_bytes > 0)
        atomic_fetch_sub(&growth->pledged_bytes, taken_bytes);
    if (grown != 0) {
        atomic_store_explicit(&growth->charged_bytes, reserved, memory_order_relaxed);
        growth->tail_bytes = 0;
    }
    return rc;
}

/*
 * With no room in the quota for a step, a call still goes through where it is certain to need none: what the last
 * growth left over is in one piece, so the driver does not have to grow for what fits in there. (What was freed may be
 * in pieces, and to let the driver try would put us over the quota for a moment.)
 */
static bool claim_tail(struct growth *growth, uint64_t bytes, struct growth_ticket *ret_ticket)
{
    uint64_t need = charge_round(bytes, TAIL_STEP_BYTES), reserved;
    bool there;

    mutex_lock(&growth->lock);
    there = growth->tail_bytes >= need && read_bytes(growth, &reserved) &&
            reserved == atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed);
    if (there) {
        growth->tail_bytes -= need;
        /* Should the driver let go of it meanwhile, then the call brings back whole steps. */
        *ret_ticket = (struct growth_ticket){.claimed_bytes = charge_round(need, GROWTH_STEP_BYTES)};
        growth->claimed_bytes += ret_ticket->claimed_bytes;
    }
    mutex_unlock(&growth->lock);
    return there;
}

bool growth_begin(struct growth *growth, struct vgpu_ledger *ledger, uint64_t bytes, struct growth_ticket *ret_ticket)
{
    uint64_t want = charge_round(bytes, GROWTH_STEP_BYTES);

    if (__builtin_expect(ledger_reserve(ledger, growth->vdev, want) < 0, 0)) {
        if (claim_tail(growth, bytes, ret_ticket))
            return true;
        if (!charge_make_room(ledger, growth->vdev, want))
            return false;
    }
    *ret_ticket = (struct growth_ticket){.taken_bytes = want};
    atomic_fetch_add(&growth->pledged_bytes, want);
    return true;
}

bool growth_claim(struct growth *growth, uint64_t bytes, bool (*still)(const void *arg), const void *arg,
                  struct growth_ticket *ret_ticket)
{
    uint64_t want = charge_round(bytes, GROWTH_STEP_BYTES);
    bool there;

    mutex_lock(&growth->lock);
    there = still(arg);
    if (there) {
        growth->claimed_bytes += want;
        *ret_ticket = (struct growth_ticket){.claimed_bytes = want};
    }
    mutex_unlock(&growth->lock);
    return there;
}

/* Under the lock, after a call: what is left in one piece. `grown` is what this call added, where it was alone. */
static void note_tail(struct growth *growth, const struct growth_ticket *ticket, uint64_t tail_before, int64_t grown,
                      bool alone, uint64_t used_bytes)
{
    uint64_t used = charge_round(used_bytes, TAIL_STEP_BYTES);

    if (grown == 0 && ticket->claimed_bytes == 0)
        growth->tail_bytes = tail_before > used ? tail_before - used : 0;
    else if (grown > 0 && alone && used > 0 && (uint64_t)grown > used)
        growth->tail_bytes = (uint64_t)grown - used;
}

bool growth_end(struct growth *growth, struct vgpu_ledger *ledger, const struct growth_ticket *ticket,
                uint64_t used_bytes)
{
    uint64_t charged, tail, give_back = ticket->taken_bytes;
    bool alone;
    int rc;

    mutex_lock(&growth->lock);
    alone = atomic_load(&growth->pledged_bytes) == give_back && growth->claimed_bytes == ticket->claimed_bytes;
    growth->claimed_bytes -= ticket->claimed_bytes;
    /* This call may have got what another one claimed, which then grows instead: on this call's pledge. */
    growth->lent_bytes += give_back;
    give_back = 0;
    if (growth->claimed_bytes == 0) {
        give_back = growth->lent_bytes;
        growth->lent_bytes = 0;
    }
    charged = atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed);
    tail = growth->tail_bytes;
    rc = settle(growth, ledger, give_back);
    note_tail(growth, ticket, tail,
              (int64_t)(atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed) - charged), alone,
              used_bytes);
    mutex_unlock(&growth->lock);
    return rc == 0;
}

void growth_refresh(struct growth *growth, struct vgpu_ledger *ledger)
{
    if (atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed) == 0)
        return;
    mutex_lock(&growth->lock);
    settle(growth, ledger, 0);
    mutex_unlock(&growth->lock);
}

void growth_trim(struct growth *growth, struct vgpu_ledger *ledger)
{
    struct capture_mode mode;

    if (atomic_load_explicit(&growth->charged_bytes, memory_order_relaxed) == 0)
        return;
    mutex_lock(&growth->lock);
    if (!growth->detached) {
        mode = capture_enter();
        growth->driver->trim(growth);
        capture_leave(&mode);
        settle(growth, ledger, 0);
    }
    mutex_unlock(&growth->lock);
}

uint64_t growth_detach(struct growth *growth)
{
    uint64_t charged;

    mutex_lock(&growth->lock);
    growth->detached = true;
    charged = atomic_exchange(&growth->charged_bytes, 0);
    mutex_unlock(&growth->lock);
    return charged;
}

void growth_attach(struct growth *growth, uint64_t charged_bytes)
{
    mutex_lock(&growth->lock);
    growth->detached = false;
    atomic_fetch_add(&growth->charged_bytes, charged_bytes);
    mutex_unlock(&growth->lock);
}

void growth_quiesce(struct growth *growth)
{
    mutex_lock(&growth->lock);
    mutex_unlock(&growth->lock);
}

void growth_forked(struct growth *growth)
{
    mutex_init(&growth->lock);
    atomic_store(&growth->charged_bytes, 0);
    atomic_store(&growth->pledged_bytes, 0);
    growth->spent_bytes = 0;
    growth->claimed_bytes = 0;
    growth->tail_bytes = 0;
    growth->lent_bytes = 0;
    growth->retained = false;
}

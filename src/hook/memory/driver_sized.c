#include "hook/memory/driver_sized.h"

#include "base/forkwatch.h"
#include "hook/work/capture.h"
#include "hook/memory/admission.h"
#include "hook/memory/reconcile.h"
#include "hook/loader/sources.h"

#define TAIL_STEP_BYTES 512 /* how a pool aligns what it gives */

static _Atomic(struct driver_sized *) all;

/* Under the lock. */
static bool read_bytes(const struct driver_sized *sized, uint64_t *ret_bytes)
{
    struct capture_mode mode;
    bool known;

    if (sized->detached)
        return false;
    mode = capture_enter();
    known = sized->driver->read(sized, ret_bytes);
    capture_leave(&mode);
    return known;
}

/* Under the lock, where the memory shrank: how much is to stay charged. Calls under way may bring
 * back the bytes that they rely on. */
static uint64_t driver_sized_retain(struct driver_sized *sized, uint64_t charged, uint64_t reserved)
{
    uint64_t gone = reserved < charged ? charged - reserved : 0;
    uint64_t kept = gone < sized->guaranteed_bytes ? gone : sized->guaranteed_bytes;

    if (sized->retained != (kept > 0)) {
        sized->retained = kept > 0;
        if (sized->retained)
            reconcile_free_begin();
        else
            reconcile_free_end();
    }
    if (gone > kept) {
        reconcile_free_begin();
        reconcile_free_end();
    }
    return reserved + kept;
}

/*
 * Under the lock: charges what was added, or gives back what went away, since the last read.
 * `taken_bytes` of the pot are the caller's and leave it. Of the rest stays what the other calls
 * under way may still need.
 */
static int driver_sized_settle(struct driver_sized *sized, uint64_t taken_bytes)
{
    uint64_t charged = atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed);
    uint64_t reserved = charged;
    uint64_t pledged, pot, others, left;
    int64_t grown;
    int rc = 0;

    if (!read_bytes(sized, &reserved))
        reserved = charged;
    if (reserved < charged || sized->retained)
        reserved = driver_sized_retain(sized, charged, reserved);
    grown = (int64_t)(reserved - charged);
    /* Read after the size: every call that can have grown it is counted here. */
    pledged = atomic_load(&sized->reserved_bytes);
    pot = pledged - sized->consumed_bytes;
    others = pledged - taken_bytes;
    left = pot;
    if (grown > 0)
        left = pot > (uint64_t)grown ? pot - (uint64_t)grown : 0;
    if (left > others)
        left = others;
    if (pot != left || grown != 0)
        rc = ledger_settle(hook_ledger(), sized->vdev, sized->kind, pot - left, grown);
    sized->consumed_bytes = others - left;
    if (taken_bytes > 0)
        atomic_fetch_sub(&sized->reserved_bytes, taken_bytes);
    if (grown != 0) {
        atomic_store_explicit(&sized->charged_bytes, reserved, memory_order_relaxed);
        sized->contiguous_bytes = 0;
    }
    return rc;
}

/*
 * Without room in the quota for a step, a call still goes through if it needs none for certain.
 * What the last growth left over is in one piece, so the driver need not grow for a call that fits
 * there. Freed memory may be in pieces: to let the driver try would exceed the quota for a moment.
 */
static bool driver_sized_claim_tail(struct driver_sized *sized, uint64_t bytes,
                                    struct driver_sized_ticket *ret_ticket)
{
    uint64_t need = mem_round(bytes, TAIL_STEP_BYTES), reserved;
    bool there;

    mutex_lock(&sized->lock);
    there = sized->contiguous_bytes >= need && read_bytes(sized, &reserved) &&
            reserved == atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed);
    if (there) {
        sized->contiguous_bytes -= need;
        /* Should the driver free it meanwhile, the call brings back whole steps. */
        *ret_ticket = (struct driver_sized_ticket){.guaranteed_bytes =
                                                       mem_round(need, DRIVER_SIZED_STEP_BYTES)};
        sized->guaranteed_bytes += ret_ticket->guaranteed_bytes;
    }
    mutex_unlock(&sized->lock);
    return there;
}

bool driver_sized_begin(struct driver_sized *sized, uint64_t bytes,
                        struct driver_sized_ticket *ret_ticket)
{
    uint64_t want = mem_round(bytes, DRIVER_SIZED_STEP_BYTES);

    if (__builtin_expect(ledger_reserve(hook_ledger(), sized->vdev, want) < 0, 0)) {
        if (driver_sized_claim_tail(sized, bytes, ret_ticket))
            return true;
        if (!mem_make_room(sized->vdev, want))
            return false;
    }
    *ret_ticket = (struct driver_sized_ticket){.taken_bytes = want};
    atomic_fetch_add(&sized->reserved_bytes, want);
    return true;
}

bool driver_sized_claim(struct driver_sized *sized, uint64_t bytes, bool (*still)(const void *arg),
                        const void *arg, struct driver_sized_ticket *ret_ticket)
{
    uint64_t want = mem_round(bytes, DRIVER_SIZED_STEP_BYTES);
    bool there;

    mutex_lock(&sized->lock);
    there = still(arg);
    if (there) {
        sized->guaranteed_bytes += want;
        *ret_ticket = (struct driver_sized_ticket){.guaranteed_bytes = want};
    }
    mutex_unlock(&sized->lock);
    return there;
}

/* Under the lock, after a call: notes what is left in one piece. `grown` is what this call added,
 * if it was alone. */
static void note_tail(struct driver_sized *sized, const struct driver_sized_ticket *ticket,
                      uint64_t tail_before, int64_t grown, bool alone, uint64_t used_bytes)
{
    uint64_t used = mem_round(used_bytes, TAIL_STEP_BYTES);

    if (grown == 0 && ticket->guaranteed_bytes == 0)
        sized->contiguous_bytes = tail_before > used ? tail_before - used : 0;
    else if (grown > 0 && alone && used > 0 && (uint64_t)grown > used)
        sized->contiguous_bytes = (uint64_t)grown - used;
}

bool driver_sized_end(struct driver_sized *sized, const struct driver_sized_ticket *ticket,
                      uint64_t used_bytes)
{
    uint64_t charged, tail, give_back = ticket->taken_bytes;
    bool alone;
    int rc;

    mutex_lock(&sized->lock);
    alone = atomic_load(&sized->reserved_bytes) == give_back &&
            sized->guaranteed_bytes == ticket->guaranteed_bytes;
    sized->guaranteed_bytes -= ticket->guaranteed_bytes;
    /* This call may have used what another one claimed. Then the other one grows, on the
     * reservation of this one. */
    sized->carried_over_bytes += give_back;
    give_back = 0;
    if (sized->guaranteed_bytes == 0) {
        give_back = sized->carried_over_bytes;
        sized->carried_over_bytes = 0;
    }
    charged = atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed);
    tail = sized->contiguous_bytes;
    rc = driver_sized_settle(sized, give_back);
    note_tail(
        sized, ticket, tail,
        (int64_t)(atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed) - charged),
        alone, used_bytes);
    mutex_unlock(&sized->lock);
    return rc == 0;
}

void driver_sized_refresh(struct driver_sized *sized)
{
    if (atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed) == 0)
        return;
    mutex_lock(&sized->lock);
    driver_sized_settle(sized, 0);
    mutex_unlock(&sized->lock);
}

void driver_sized_trim(struct driver_sized *sized)
{
    struct capture_mode mode;

    if (atomic_load_explicit(&sized->charged_bytes, memory_order_relaxed) == 0)
        return;
    mutex_lock(&sized->lock);
    if (!sized->detached) {
        mode = capture_enter();
        sized->driver->trim(sized);
        capture_leave(&mode);
        driver_sized_settle(sized, 0);
    }
    mutex_unlock(&sized->lock);
}

uint64_t driver_sized_detach(struct driver_sized *sized)
{
    uint64_t charged;

    mutex_lock(&sized->lock);
    sized->detached = true;
    charged = atomic_exchange(&sized->charged_bytes, 0);
    mutex_unlock(&sized->lock);
    return charged;
}

void driver_sized_attach(struct driver_sized *sized, uint64_t charged_bytes)
{
    mutex_lock(&sized->lock);
    sized->detached = false;
    atomic_fetch_add(&sized->charged_bytes, charged_bytes);
    mutex_unlock(&sized->lock);
}

/* All of them */

void driver_sized_refresh_all(const struct driver_sized_ops *driver)
{
    fork_check();
    for (struct driver_sized *sized = atomic_load(&all); sized != NULL; sized = sized->next)
        if (driver == NULL || sized->driver == driver)
            driver_sized_refresh(sized);
}

void driver_sized_quiesce(void)
{
    fork_check();
    for (struct driver_sized *sized = atomic_load(&all); sized != NULL; sized = sized->next) {
        mutex_lock(&sized->lock);
        mutex_unlock(&sized->lock);
    }
}

static void driver_sized_refresh_every(void)
{
    driver_sized_refresh_all(NULL);
}

static void driver_sized_trim_vdev(unsigned vdev)
{
    for (struct driver_sized *sized = atomic_load(&all); sized != NULL; sized = sized->next)
        if (sized->vdev == vdev)
            driver_sized_trim(sized);
}

static void driver_sized_forget(void)
{
    for (struct driver_sized *sized = atomic_load(&all); sized != NULL; sized = sized->next) {
        mutex_init(&sized->lock);
        atomic_store(&sized->charged_bytes, 0);
        atomic_store(&sized->reserved_bytes, 0);
        sized->consumed_bytes = 0;
        sized->guaranteed_bytes = 0;
        sized->contiguous_bytes = 0;
        sized->carried_over_bytes = 0;
        sized->retained = false;
    }
}

void driver_sized_init(struct driver_sized *sized, unsigned vdev, enum vgpu_kind kind,
                       const struct driver_sized_ops *driver)
{
    static struct memory_source source = {.refresh = driver_sized_refresh_every,
                                          .trim = driver_sized_trim_vdev,
                                          .forked = driver_sized_forget};
    struct driver_sized *first = atomic_load(&all);

    mutex_init(&sized->lock);
    sized->driver = driver;
    sized->vdev = vdev;
    sized->kind = kind;
    sources_register(&source);
    do
        sized->next = first;
    while (!atomic_compare_exchange_weak(&all, &first, sized));
}

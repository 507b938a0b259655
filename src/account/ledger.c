#include "account/ledger.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "account/registration.h"

#include <errno.h>
#include <time.h>

#define IDLE_ALL           UINT64_MAX
#define EXIT_NAP_NS        NS_PER_MS
#define REGISTRATION_TRIES 3 /* a registration that is lost again and again is not worth more */

static _Atomic uint64_t *idle_word(struct vgpu_ledger *ledger, uint64_t registration, unsigned vdev)
{
    return &registration_slot(ledger, registration)->vdev[vdev].idle;
}

/* Takes `want_bytes` of our idle reservation, or all of it (IDLE_ALL). 0: there is less, or the
 * registration is lost. */
static inline uint64_t idle_take(struct vgpu_ledger *ledger, uint64_t registration, unsigned vdev,
                                 uint64_t want_bytes)
{
    _Atomic uint64_t *word = idle_word(ledger, registration, vdev);
    uint64_t tag = IDLE_TAG(registration_generation(registration));
    uint64_t idle = load_relaxed(word);

    for (;;) {
        uint64_t bytes = idle & IDLE_BYTES_MASK;
        uint64_t taken = want_bytes == IDLE_ALL ? bytes : want_bytes;

        if (idle >> IDLE_TAG_SHIFT != tag >> IDLE_TAG_SHIFT || bytes < taken || taken == 0)
            return 0;
        if (atomic_compare_exchange_weak_explicit(word, &idle, idle - taken, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return taken;
    }
}

/* Makes bytes idle. False: the registration is lost. */
static bool idle_give(struct vgpu_ledger *ledger, uint64_t registration, unsigned vdev,
                      uint64_t bytes)
{
    _Atomic uint64_t *word = idle_word(ledger, registration, vdev);
    uint64_t tag = IDLE_TAG(registration_generation(registration));
    uint64_t idle = load_relaxed(word);

    do {
        if (idle >> IDLE_TAG_SHIFT != tag >> IDLE_TAG_SHIFT)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &idle, idle + bytes, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

/* By how much `bytes` more exceed the quota of a group, or of the instance (0). */
static uint64_t too_much(struct region_layout *layout, unsigned group, unsigned vdev,
                         uint64_t bytes)
{
    uint64_t quota = region_quota(layout, group, vdev);

    return quota ? subtract_clamped(
                       add_saturated(load_relaxed(region_total(layout, group, vdev)), bytes), quota)
                 : 0;
}

/* Idle bytes may be used only while the quotas are kept, which may have been lowered since. */
static bool within_quota(struct vgpu_ledger *ledger, unsigned vdev)
{
    struct region_layout *layout = ledger->region->layout;
    unsigned group = ledger_group(ledger);

    return too_much(layout, 0, vdev, 0) == 0 &&
           (__builtin_expect(group == 0, 1) || too_much(layout, group, vdev, 0) == 0);
}

static bool make_room(struct vgpu_ledger *ledger, unsigned group, unsigned except, unsigned vdev,
                      uint64_t bytes)
{
    struct region_layout *layout = ledger->region->layout;
    uint64_t quota = region_quota(layout, group, vdev), missing;

    if (quota == 0)
        return bytes <= IDLE_BYTES_MASK;
    for (int round = 0;; round++) {
        missing = too_much(layout, group, vdev, bytes);
        if (missing == 0)
            return true;
        if (bytes > quota || round == 2)
            return false;
        if (slots_steal(layout, group, vdev, missing, except) < missing && round == 0)
            region_reap(ledger->region);
    }
}

/* The group first: bytes taken from its idle reservations make room in the instance as well, and
 * the reverse does not hold. */
bool ledger_make_room(struct vgpu_ledger *ledger, unsigned group, unsigned except, unsigned vdev,
                      uint64_t bytes)
{
    return (group == 0 || make_room(ledger, group, except, vdev, bytes)) &&
           make_room(ledger, 0, except, vdev, bytes);
}

/* Under the lock. Gives all of our own idle bytes back, then reserves `bytes`. */
static int grow_locked(struct vgpu_ledger *ledger, uint64_t registration, unsigned vdev,
                       uint64_t bytes, bool force)
{
    struct region_layout *layout = ledger->region->layout;
    unsigned group = slot_group(layout, registration_index(registration));
    _Atomic uint64_t *reserved =
        &registration_slot(ledger, registration)->vdev[vdev].reserved_bytes;
    uint64_t own_idle = idle_take(ledger, registration, vdev, IDLE_ALL);
    uint64_t owed = atomic_exchange_explicit(&ledger->vdev[vdev].owed, 0, memory_order_relaxed);

    store_relaxed(reserved,
                  add_saturated(subtract_clamped(load_relaxed(reserved), own_idle), owed));
    region_total_sub(layout, group, vdev, own_idle);
    region_total_add(layout, group, vdev, owed);
    if (!ledger_make_room(ledger, group, registration_index(registration), vdev, bytes) && !force)
        return -ENOMEM;
    store_relaxed(reserved, add_saturated(load_relaxed(reserved), bytes));
    region_total_add(layout, group, vdev, bytes);
    return 0;
}

/*
 * Without the lock. Waits a little for an exiting process that would make room. False: there is
 * none, or it has had LEDGER_EXIT_BOUND_NS. A guard does not wait, for its threads serve other
 * programs.
 */
static bool wait_for_exit(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes,
                          uint64_t *end_ns)
{
    const struct timespec nap = {.tv_nsec = EXIT_NAP_NS};
    uint64_t registration = ledger_registration(ledger),
             quota = region_quota(ledger->region->layout, 0, vdev), now_ns;
    NO_CANCEL;

    now_ns = clock_ns();
    /* This reads /proc for each process: not each time, if a program is refused again and again. */
    if (ledger->guards || (quota && bytes > quota) ||
        now_ns - load_relaxed(&ledger->exits_asked_ns) < EXIT_NAP_NS)
        return false;
    if (!slots_exiting(ledger->region->layout, vdev, registration_index(registration))) {
        store_relaxed(&ledger->exits_asked_ns, now_ns);
        return false;
    }
    if (*end_ns == 0)
        *end_ns = now_ns + LEDGER_EXIT_BOUND_NS;
    if (now_ns >= *end_ns)
        return false;
    nanosleep(&nap, NULL);
    return true;
}

static int grow_once(struct vgpu_ledger *ledger, uint64_t registration, unsigned vdev,
                     uint64_t bytes, bool force)
{
    struct region_hold hold;
    int rc = region_lock(ledger->region, registration_lock_id(registration), LEDGER_LOCK_BOUND_NS,
                         &hold);

    if (rc < 0)
        return rc;
    rc = registration_ours(ledger, registration)
             ? grow_locked(ledger, registration, vdev, bytes, force)
             : -ESTALE;
    region_unlock(ledger->region, &hold);
    return rc;
}

/* Takes the lock itself. Reserves `bytes` that the caller has added to busy already; waits for
 * processes that are exiting. */
static int grow_in_region(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes, bool force)
{
    uint64_t registration = ledger_registration(ledger), end_ns = 0;
    int rc;

    for (int i = 0; i < REGISTRATION_TRIES; i++) {
        if (!registration || !registration_ours(ledger, registration)) {
            if (registration_renew(ledger, registration, vdev, bytes, &registration) < 0)
                return -ENOMEM;
        }
        if (ledger_counts_only(ledger, vdev))
            return 0;
        do
            rc = grow_once(ledger, registration, vdev, bytes, force);
        while (rc == -ENOMEM && wait_for_exit(ledger, vdev, bytes, &end_ns));
        if (rc != -ESTALE)
            return rc;
    }
    return -ENOMEM;
}

/* The same for memory that is already taken. If the lock is not to be had, the bytes are reported
 * next time. */
static void grow_forced(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    if (grow_in_region(ledger, vdev, bytes, true) < 0)
        atomic_fetch_add_explicit(&ledger->vdev[vdev].owed, bytes, memory_order_relaxed);
}

/* Gives back bytes that count as busy. */
static void give_back(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    struct own_vdev *own = &ledger->vdev[vdev];
    uint64_t registration = ledger_registration(ledger), owed = load_relaxed(&own->owed);

    /* Bytes that were never reported to the region are not given back to it. */
    while (owed > 0 && bytes > 0) {
        uint64_t less = owed < bytes ? owed : bytes;

        if (atomic_compare_exchange_weak_explicit(&own->owed, &owed, owed - less,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            atomic_fetch_sub_explicit(&own->busy, less, memory_order_relaxed);
            bytes -= less;
        }
    }
    if (bytes == 0)
        return;
    for (int i = 0; i < REGISTRATION_TRIES && !ledger_counts_only(ledger, vdev); i++) {
        if (registration && idle_give(ledger, registration, vdev, bytes))
            break;
        if (!registration || registration_renew(ledger, registration, vdev, 0, &registration) < 0)
            break;
    }
    atomic_fetch_sub_explicit(&own->busy, bytes, memory_order_relaxed);
}

static void add_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes)
{
    uint64_t registration = ledger_registration(ledger);

    atomic_fetch_add_explicit(&ledger->vdev[vdev].held[kind], bytes, memory_order_relaxed);
    if (registration && registration_ours(ledger, registration))
        atomic_fetch_add_explicit(
            &registration_slot(ledger, registration)->vdev[vdev].held_bytes[kind], bytes,
            memory_order_relaxed);
}

uint64_t ledger_take_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                          uint64_t bytes)
{
    _Atomic uint64_t *held = &ledger->vdev[vdev].held[kind];
    uint64_t registration = ledger_registration(ledger), before = load_relaxed(held), less;

    do {
        less = bytes < before ? bytes : before;
    } while (!atomic_compare_exchange_weak_explicit(held, &before, before - less,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (less && registration && registration_ours(ledger, registration))
        atomic_fetch_sub_explicit(
            &registration_slot(ledger, registration)->vdev[vdev].held_bytes[kind], less,
            memory_order_relaxed);
    return less;
}

static bool known(unsigned vdev, enum vgpu_kind kind)
{
    return vdev < VGPU_VDEVS && (unsigned)kind < VGPU_KINDS;
}

int ledger_reserve(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    uint64_t registration;
    int rc;

    if (vdev >= VGPU_VDEVS)
        return -EINVAL;
    if (bytes == 0)
        return 0;
    if (bytes > IDLE_BYTES_MASK)
        return -ENOMEM;
    fork_check();
    registration = ledger_registration(ledger);
    /* Busy first: a thread that renews the registration meanwhile must rather count these bytes
     * twice than not at all. */
    atomic_fetch_add_explicit(&ledger->vdev[vdev].busy, bytes, memory_order_relaxed);
    if (registration && within_quota(ledger, vdev) && idle_take(ledger, registration, vdev, bytes))
        return 0;
    rc = grow_in_region(ledger, vdev, bytes, false);
    if (rc < 0)
        atomic_fetch_sub_explicit(&ledger->vdev[vdev].busy, bytes, memory_order_relaxed);
    return rc;
}

void ledger_cancel(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes)
{
    if (vdev >= VGPU_VDEVS || reserved_bytes == 0)
        return;
    fork_check();
    give_back(ledger, vdev, reserved_bytes);
}

/* Memory of this process that another process has restored after a checkpoint. */
static void bring_back_own(struct vgpu_ledger *ledger, uint64_t registration)
{
    struct region_hold hold;

    if (ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold) < 0)
        return;
    if (registration_ours(ledger, registration))
        slot_bring_back(ledger->region->layout, registration_index(registration));
    region_unlock(ledger->region, &hold);
}

int ledger_commit(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                  uint64_t reserved_bytes, uint64_t actual_bytes)
{
    uint64_t registration;

    if (!known(vdev, kind))
        return -EINVAL;
    fork_check();
    if (actual_bytes > reserved_bytes) {
        int rc = ledger_reserve(ledger, vdev, actual_bytes - reserved_bytes);

        if (rc < 0)
            return rc;
    }
    registration = ledger_registration(ledger);
    /* The driver has just answered, so memory that was away is back, whichever process has restored
     * it. */
    if (registration &&
        load_relaxed(&registration_slot(ledger, registration)->vdev[vdev].away_bytes))
        bring_back_own(ledger, registration);
    add_held(ledger, vdev, kind, actual_bytes);
    if (actual_bytes < reserved_bytes)
        give_back(ledger, vdev, reserved_bytes - actual_bytes);
    slots_note_peak(ledger->region->layout, vdev);
    ledger_notify(ledger, vdev);
    return 0;
}

void ledger_release(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes)
{
    if (!known(vdev, kind) || bytes == 0)
        return;
    fork_check();
    bytes = ledger_take_held(ledger, vdev, kind, bytes);
    if (bytes)
        give_back(ledger, vdev, bytes);
    ledger_notify(ledger, vdev);
}

static void charge_forced(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                          uint64_t bytes)
{
    atomic_fetch_add_explicit(&ledger->vdev[vdev].busy, bytes, memory_order_relaxed);
    grow_forced(ledger, vdev, bytes);
    add_held(ledger, vdev, kind, bytes);
}

void ledger_set(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes)
{
    uint64_t before, registration;

    if (!known(vdev, kind) || bytes > IDLE_BYTES_MASK)
        return;
    fork_check();
    /* An exchange: of two threads that set at once, each accounts for the other's change. */
    before = atomic_exchange_explicit(&ledger->vdev[vdev].held[kind], bytes, memory_order_relaxed);
    if (bytes == before)
        return;
    registration = ledger_registration(ledger);
    if (registration && registration_ours(ledger, registration))
        atomic_fetch_add_explicit(
            &registration_slot(ledger, registration)->vdev[vdev].held_bytes[kind], bytes - before,
            memory_order_relaxed);
    if (bytes > before) {
        atomic_fetch_add_explicit(&ledger->vdev[vdev].busy, bytes - before, memory_order_relaxed);
        grow_forced(ledger, vdev, bytes - before);
        slots_note_peak(ledger->region->layout, vdev);
    } else {
        give_back(ledger, vdev, before - bytes);
    }
    ledger_notify(ledger, vdev);
}

int ledger_settle(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                  uint64_t taken_bytes, int64_t grown_bytes)
{
    uint64_t grown, charged;
    int rc = 0;

    if (!known(vdev, kind) || (grown_bytes > 0 && (uint64_t)grown_bytes > IDLE_BYTES_MASK))
        return -EINVAL;
    fork_check();
    if (grown_bytes <= 0) {
        if (grown_bytes < 0)
            taken_bytes += ledger_take_held(ledger, vdev, kind, 0 - (uint64_t)grown_bytes);
        if (taken_bytes)
            give_back(ledger, vdev, taken_bytes);
    } else {
        grown = (uint64_t)grown_bytes;
        charged = grown < taken_bytes ? grown : taken_bytes;
        add_held(ledger, vdev, kind, charged);
        if (grown > taken_bytes) {
            rc = ledger_reserve(ledger, vdev, grown - taken_bytes);
            if (rc == 0)
                add_held(ledger, vdev, kind, grown - taken_bytes);
            else
                charge_forced(ledger, vdev, kind, grown - taken_bytes);
        } else if (grown < taken_bytes) {
            give_back(ledger, vdev, taken_bytes - grown);
        }
        slots_note_peak(ledger->region->layout, vdev);
    }
    if (grown_bytes)
        ledger_notify(ledger, vdev);
    return rc < 0 ? -ENOMEM : 0;
}

uint64_t ledger_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind)
{
    uint64_t bytes = 0;

    if (vdev >= VGPU_VDEVS || (unsigned)kind > VGPU_KINDS)
        return 0;
    fork_check();
    if (kind < VGPU_KINDS)
        return load_relaxed(&ledger->vdev[vdev].held[kind]);
    for (unsigned i = 0; i < VGPU_KINDS; i++)
        bytes += load_relaxed(&ledger->vdev[vdev].held[i]);
    return bytes;
}

uint64_t ledger_accounted_in_nvml(struct vgpu_ledger *ledger, unsigned vdev)
{
    uint64_t bytes, other;

    if (vdev >= VGPU_VDEVS)
        return 0;
    fork_check();
    bytes = load_relaxed(&ledger->vdev[vdev].busy);
    other = load_relaxed(&ledger->vdev[vdev].held[VGPU_KIND_UNTRACKED]);
    for (unsigned i = 0; i < VGPU_KINDS; i++)
        if (!vgpu_kind_in_nvml(i))
            other += load_relaxed(&ledger->vdev[vdev].held[i]);
    return subtract_clamped(bytes, other);
}

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "account/hami.h"
#include "account/registration.h"

#include <stdio.h>
#include <stdlib.h>

static void complain(struct vgpu_ledger *ledger, int rc)
{
    char text[64];

    if (atomic_exchange(&ledger->told, true))
        return;
    if (rc == -EUSERS)
        log_error(
            "all %d places of the instance are taken by processes: no GPU memory for this one",
            VGPU_PROCS_MAX);
    else
        log_error("cannot register with the instance (%s): no GPU memory for this process",
                  err_text(rc, text, sizeof(text)));
}

static uint64_t make_registration(unsigned index, uint32_t generation)
{
    return (uint64_t)(index + 1) << 32 | generation;
}

int registration_renew(struct vgpu_ledger *ledger, uint64_t old, unsigned vdev,
                       uint64_t pending_bytes, uint64_t *ret_registration)
{
    struct vgpu_region *region = ledger->region;
    uint64_t reserved[VGPU_VDEVS] = {0}, current;
    uint32_t generation;
    unsigned index;
    int rc;

    MUTEX_SCOPE(&ledger->registration_lock);
    current = ledger_registration(ledger);
    if (current != old) {
        *ret_registration = current;
        return 0;
    }
    if (old) {
        for (unsigned i = 0; i < VGPU_VDEVS; i++)
            reserved[i] = ledger_counts_only(ledger, i)
                              ? 0
                              : subtract_clamped(load_relaxed(&ledger->vdev[i].busy),
                                                 i == vdev ? pending_bytes : 0);
        slot_release(region, registration_index(old), registration_generation(old));
    }
    rc = slot_claim(region, ledger->guards ? &ledger->supervised : NULL, ledger->group_id,
                    old ? reserved : NULL, &index, &generation);
    if (rc < 0) {
        complain(ledger, rc);
        return rc;
    }
    for (unsigned i = 0; old && i < VGPU_VDEVS; i++) {
        store_relaxed(&ledger->vdev[i].owed, 0);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            store_relaxed(&region->layout->slot[index].vdev[i].held_bytes[kind],
                          load_relaxed(&ledger->vdev[i].held[kind]));
    }
    atomic_store_explicit(&ledger->group, slot_group(region->layout, index), memory_order_relaxed);
    *ret_registration = make_registration(index, generation);
    atomic_store_explicit(&ledger->registration, *ret_registration, memory_order_release);
    ledger_notify(ledger, VGPU_VDEVS);
    return 0;
}

/* The slot and all that it holds are the parent's. */
static void in_child(void *arg)
{
    struct vgpu_ledger *ledger = arg;

    mutex_init(&ledger->registration_lock);
    atomic_store_explicit(&ledger->registration, 0, memory_order_relaxed);
    atomic_store_explicit(&ledger->told, false, memory_order_relaxed);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        store_relaxed(&ledger->vdev[i].busy, 0);
        store_relaxed(&ledger->vdev[i].owed, 0);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            store_relaxed(&ledger->vdev[i].held[kind], 0);
    }
}

static int make(struct vgpu_region *region, const struct slot_supervised *supervised,
                uint64_t group_id, struct vgpu_ledger **ret_ledger)
{
    KEEP_ERRNO;
    struct vgpu_ledger *ledger;
    uint64_t registration;
    int rc;

    fork_check();
    if (posix_memalign((void **)&ledger, 64, sizeof(*ledger)) != 0)
        return -ENOMEM;
    memset(ledger, 0, sizeof(*ledger));
    ledger->region = region;
    ledger->group_id = group_id;
    if (supervised) {
        ledger->guards = true;
        ledger->supervised = *supervised;
    }
    ledger->watch.child = in_child;
    ledger->watch.arg = ledger;
    fork_watch_add(&ledger->watch);
    rc = registration_renew(ledger, 0, 0, 0, &registration);
    if (rc < 0) {
        fork_watch_remove(&ledger->watch);
        free(ledger);
        return rc;
    }
    *ret_ledger = ledger;
    return 0;
}

int ledger_new(struct vgpu_region *region, uint64_t group_id, struct vgpu_ledger **ret_ledger)
{
    return make(region, NULL, group_id, ret_ledger);
}

int ledger_new_supervised(struct vgpu_region *region, pid_t pid, const char *command,
                          struct vgpu_ledger **ret_ledger)
{
    struct slot_supervised supervised = {.pid = pid};

    snprintf(supervised.command, sizeof(supervised.command), "%s", command);
    return make(region, &supervised, 0, ret_ledger);
}

void ledger_free(struct vgpu_ledger *ledger)
{
    KEEP_ERRNO;
    uint64_t registration;

    if (!ledger)
        return;
    fork_check();
    hami_forget(ledger);
    registration = ledger_registration(ledger);
    if (registration)
        slot_release(ledger->region, registration_index(registration),
                     registration_generation(registration));
    ledger_notify(ledger, VGPU_VDEVS);
    fork_watch_remove(&ledger->watch);
    free(ledger);
}

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "account/ledger_internal.h"
#include "account/refuse.h"

#include <stdio.h>
#include <string.h>

#define TOLD_COUNT (sizeof(((struct region_layout *)0)->told) / sizeof(uint64_t))

/* FNV-1a; never 0. */
static uint64_t hash_of(unsigned vdev, const char *api)
{
    uint64_t hash = 14695981039346656037ULL ^ vdev;

    for (; *api; api++)
        hash = (hash ^ (unsigned char)*api) * 1099511628211ULL;
    return hash | 1;
}

/* Under the lock. Whether this is the first refusal of its kind, which it records. If the table is
 * full, none is. */
static bool first_told(struct region_layout *layout, unsigned vdev, const char *api)
{
    uint64_t hash = hash_of(vdev, api);

    for (unsigned i = 0; i < TOLD_COUNT; i++) {
        if (layout->told[i] == hash)
            return false;
        if (layout->told[i] == 0) {
            layout->told[i] = hash;
            return true;
        }
    }
    return false;
}

static void tell(const struct vgpu_refusal *refusal, unsigned number, const char *name,
                 bool whole_card)
{
    char size[SIZE_TEXT_BYTES], used[SIZE_TEXT_BYTES], quota[SIZE_TEXT_BYTES];
    char where[48] = "as pinned host memory", who[VGPU_NAME_LEN + 16] = "";
    const char *remedy = refusal->vdev == VGPU_VDEV_HOST ? "raise it with --host-mem or free memory"
                         : whole_card                    ? "that is the whole card; free memory"
                         : name[0]                       ? "raise it with --mem or free memory"
                                   : "raise CUDA_DEVICE_MEMORY_LIMIT or free memory";

    if (name[0])
        snprintf(who, sizeof(who), "instance %s: ", name);
    if (refusal->vdev != VGPU_VDEV_HOST)
        snprintf(where, sizeof(where), "on device %u", number);
    log_notice("%s%s of %s refused %s: %s of %s in use; %s", who, refusal->api,
               format_bytes(refusal->size_bytes, size, sizeof(size)), where,
               format_bytes(refusal->used_bytes, used, sizeof(used)),
               format_bytes(refusal->quota_bytes, quota, sizeof(quota)), remedy);
}

/* The tighter quota: the group's, or the instance's (0). */
static unsigned tighter(const struct region_layout *layout, unsigned group, unsigned vdev)
{
    uint64_t quota = region_quota(layout, 0, vdev), of_group = region_quota(layout, group, vdev);

    if (group == 0 || of_group == 0)
        return 0;
    return quota == 0 || subtract_clamped(of_group, slots_used_by(layout, group, vdev)) <=
                             subtract_clamped(quota, slots_used_by(layout, 0, vdev))
               ? group
               : 0;
}

void ledger_refuse(struct vgpu_ledger *ledger, unsigned vdev, uint64_t size_bytes, const char *api)
{
    KEEP_ERRNO;
    struct region_layout *layout = ledger->region->layout;
    struct vgpu_refusal refusal = {
        .time_ns = clock_real_ns(), .size_bytes = size_bytes, .vdev = vdev};
    char name[VGPU_NAME_LEN];
    struct region_hold hold;
    uint64_t count;
    unsigned group;
    bool first = false, whole_card;

    if (vdev >= VGPU_VDEVS)
        return;
    fork_check();
    refusal.pid = getpid();
    snprintf(refusal.api, sizeof(refusal.api), "%s", api);
    /* If a stopped process has the lock, the record is not worth a second long wait. */
    if (ledger_lock(ledger, 100 * NS_PER_MS, &hold) < 0)
        return;
    ledger_reap(ledger);
    group = tighter(layout, ledger_group(ledger), vdev);
    refusal.quota_bytes = region_quota(layout, group, vdev);
    refusal.used_bytes = slots_used_by(layout, group, vdev);
    count = load_relaxed(&layout->refusal_count);
    layout->refusals[count % VGPU_REFUSALS] = refusal;
    store_relaxed(&layout->refusal_count, count + 1);
    store_relaxed(&layout->vdev[vdev].refusals, load_relaxed(&layout->vdev[vdev].refusals) + 1);
    if (log_wanted(LOG_LEVEL_NOTICE))
        first = first_told(layout, vdev, refusal.api);
    whole_card = refusal.quota_bytes && refusal.quota_bytes == layout->vdev[vdev].physical_bytes;
    memcpy(name, layout->name, sizeof(name));
    region_unlock(ledger->region, &hold);
    name[sizeof(name) - 1] = '\0';
    if (first)
        tell(&refusal, ledger_shown_number(ledger, vdev), name, whole_card);
}

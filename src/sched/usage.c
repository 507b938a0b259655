#include "sched/usage.h"

#include "sched/bucket.h"
#include "region/internal.h"

#include <string.h>

static struct region_compute *compute_of(struct vgpu_region *region, unsigned vdev)
{
    return &region->layout->vdev[vdev].compute;
}

static void add(_Atomic uint64_t *word, uint64_t value)
{
    atomic_fetch_add_explicit(word, value, memory_order_relaxed);
}

static struct region_group_vdev *group_vdev(struct vgpu_region *region, unsigned group,
                                            unsigned vdev)
{
    return &region->layout->group[group].vdev[vdev];
}

const _Atomic uint32_t *usage_cap(struct vgpu_region *region, unsigned group, unsigned vdev)
{
    return group ? &group_vdev(region, group, vdev)->cap_percent
                 : &region->layout->vdev[vdev].cap_percent;
}

_Atomic uint64_t *usage_bucket(struct vgpu_region *region, unsigned group, unsigned vdev)
{
    return group ? &group_vdev(region, group, vdev)->paid_until_ns
                 : &compute_of(region, vdev)->paid_until_ns;
}

_Atomic uint64_t *usage_bucket_at(struct vgpu_region *region, unsigned vdev, uint32_t percent,
                                  uint64_t now_ns)
{
    _Atomic uint32_t *debt_percent = &region->layout->vdev[vdev].debt_percent;
    _Atomic uint64_t *bucket = usage_bucket(region, 0, vdev);
    uint32_t before = atomic_load_explicit(debt_percent, memory_order_relaxed);

    if (__builtin_expect(before != percent, 0) &&
        atomic_compare_exchange_strong(debt_percent, &before, percent))
        bucket_rescale(bucket, now_ns, before, percent);
    return bucket;
}

_Atomic uint64_t *usage_copy_bucket(struct vgpu_region *region, unsigned group, unsigned vdev,
                                    enum vgpu_work direction)
{
    _Atomic uint64_t *buckets = group ? group_vdev(region, group, vdev)->copy_paid_until_ns
                                      : compute_of(region, vdev)->copy_paid_until_ns;

    return &buckets[direction == VGPU_WORK_DTOH];
}

bool usage_in_use(const struct vgpu_region *region, unsigned vdev)
{
    return atomic_load_explicit(&region->layout->vdev[vdev].total_bytes, memory_order_relaxed) > 0;
}

const uint64_t *usage_copy_rate(const struct vgpu_region *region, unsigned group)
{
    return group ? &region->layout->group[group].compute.copy_bytes_s
                 : &region->layout->compute.copy_bytes_s;
}

uint32_t usage_group_cap_policy(const struct vgpu_region *region, unsigned group)
{
    return __atomic_load_n(&region->layout->group[group].compute.cap_policy, __ATOMIC_RELAXED);
}

/* Lowers weight and priority to the highest of the live slots. A dead process counts until its slot
 * is reaped. */
static void lower_to_groups(const struct region_layout *layout, struct vgpu_compute *settings)
{
    uint32_t weight = 0, priority = 0;
    bool any = false;

    for (unsigned i = 0; i < region_slots_high(layout); i++) {
        const struct vgpu_compute *of_group = &layout->group[slot_group(layout, i)].compute;
        uint32_t own_weight, own_priority;

        if (!slot_live(&layout->slot[i]))
            continue;
        if (slot_group(layout, i) == 0)
            return;
        own_weight = __atomic_load_n(&of_group->weight, __ATOMIC_RELAXED);
        own_priority = __atomic_load_n(&of_group->priority, __ATOMIC_RELAXED);
        if (own_weight == 0)
            own_weight = settings->weight;
        weight = own_weight > weight ? own_weight : weight;
        priority = own_priority > priority ? own_priority : priority;
        any = true;
    }
    if (any && weight < settings->weight)
        settings->weight = weight;
    if (any && priority < settings->priority)
        settings->priority = priority;
}

struct vgpu_compute usage_settings(const struct vgpu_region *region)
{
    const struct vgpu_compute *from = &region->layout->compute;
    struct vgpu_compute settings = {
        .weight = __atomic_load_n(&from->weight, __ATOMIC_RELAXED),
        .priority = __atomic_load_n(&from->priority, __ATOMIC_RELAXED),
        .cap_policy = __atomic_load_n(&from->cap_policy, __ATOMIC_RELAXED),
        .turn_policy = __atomic_load_n(&from->turn_policy, __ATOMIC_RELAXED),
        .copy_bytes_s = __atomic_load_n(&from->copy_bytes_s, __ATOMIC_RELAXED),
    };

    if (group_count(region->layout) > 1)
        lower_to_groups(region->layout, &settings);
    return settings;
}

/*
 * A writer that finds an older span in the entry starts it anew. If two do so at once, one's part
 * may be lost. A writer whose report is late adds to the span that is there by now.
 */
static void add_to_span(struct region_compute *compute, uint64_t now_ns, uint64_t ns)
{
    uint64_t span = now_ns / REGION_SPAN_NS, stamp;
    unsigned i = span % REGION_SPANS;

    stamp = load_relaxed(&compute->span_stamp[i]);
    if (stamp - span > USAGE_LATE_SPANS &&
        atomic_compare_exchange_strong(&compute->span_stamp[i], &stamp, span))
        store_relaxed(&compute->span_ns[i], ns);
    else
        add(&compute->span_ns[i], ns);
}

void usage_add(struct vgpu_region *region, unsigned vdev, enum vgpu_work work, uint64_t calls,
               int64_t amount, uint64_t now_ns)
{
    struct region_compute *compute = compute_of(region, vdev);

    if (calls)
        add(&compute->calls[work], calls);
    add(&compute->amount[work], (uint64_t)amount);
    if (vgpu_work_is_time(work))
        add_to_span(compute, now_ns, (uint64_t)amount);
}

void usage_throttled(struct vgpu_region *region, unsigned vdev, uint64_t ns)
{
    add(&compute_of(region, vdev)->throttles, 1);
    add(&compute_of(region, vdev)->throttled_ns, ns);
}

void usage_turns(struct vgpu_region *region, unsigned vdev, uint64_t turns, uint64_t waited_ns)
{
    add(&compute_of(region, vdev)->turns, turns);
    add(&compute_of(region, vdev)->turn_wait_ns, waited_ns);
}

void usage_copy_waited(struct vgpu_region *region, unsigned vdev, uint64_t ns)
{
    add(&compute_of(region, vdev)->copy_wait_ns, ns);
}

uint64_t usage_instance_id(const struct vgpu_region *region)
{
    uint64_t id = region->layout->created_ns * 0x9E3779B97F4A7C15ULL;

    for (unsigned i = 0; i < VGPU_NAME_LEN && region->layout->name[i]; i++)
        id = (id ^ (unsigned char)region->layout->name[i]) * 0x100000001B3ULL;
    return id ? id : 1;
}

void usage_instance_name(const struct vgpu_region *region, char ret_name[VGPU_NAME_LEN])
{
    memcpy(ret_name, region->layout->name, VGPU_NAME_LEN);
    ret_name[VGPU_NAME_LEN - 1] = '\0';
}

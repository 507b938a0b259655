/*
 * The slots of the clock in which gangs have their turns (sched/gang.h).
 */
#include "sched/policy.h"

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)

static bool contends(const struct arena_tenant *tenant)
{
    return LOAD(tenant->id) && LOAD(tenant->active);
}

bool policy_gang(const struct arena_layout *layout)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        if (!contends(&layout->tenant[i]))
            continue;
        if (LOAD(layout->tenant[i].devices) < 2)
            return false;
        count++;
    }
    return count > 1;
}

/* A copy of a tenant that contends: any process that shares the arena may change ids and weights at
 * any time. */
struct contender {
    uint64_t id;
    uint32_t weight;
    int tenant;
};

static unsigned list_contenders(const struct arena_layout *layout, struct contender *ret_list)
{
    unsigned count = 0;

    for (int i = 0; i < ARENA_TENANTS; i++) {
        const struct arena_tenant *tenant = &layout->tenant[i];
        struct contender one = {
            .id = LOAD(tenant->id), .weight = policy_weight(tenant), .tenant = i};
        unsigned at = count;

        if (!one.id || !LOAD(tenant->active))
            continue;
        for (; at > 0 && ret_list[at - 1].id > one.id; at--)
            ret_list[at] = ret_list[at - 1];
        ret_list[at] = one;
        count++;
    }
    return count;
}

/* How many slots in a row a tenant has. The tenant with the least weight has one. */
static unsigned slots_of(const struct contender *one, uint32_t least_weight)
{
    unsigned slots = (one->weight + least_weight / 2) / least_weight;

    return slots < 1 ? 1 : slots > POLICY_SLOTS_MOST ? POLICY_SLOTS_MOST : slots;
}

int policy_slot_owner(const struct arena_layout *layout, uint64_t now_ns)
{
    struct contender list[ARENA_TENANTS];
    unsigned count = list_contenders(layout, list), all = 0, slot;
    uint32_t least_weight = VGPU_WEIGHT_MAX;

    for (unsigned i = 0; i < count; i++)
        least_weight = list[i].weight < least_weight ? list[i].weight : least_weight;
    for (unsigned i = 0; i < count; i++)
        all += slots_of(&list[i], least_weight);
    if (all == 0)
        return -1;
    slot = (unsigned)(now_ns / POLICY_SLOT_NS % all);
    for (unsigned i = 0; i < count; i++) {
        unsigned slots = slots_of(&list[i], least_weight);

        if (slot < slots)
            return list[i].tenant;
        slot -= slots;
    }
    return -1;
}

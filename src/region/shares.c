/*
 * Exported memory: see struct region_share.
 */
#include "region/internal.h"

#include <errno.h>
#include <string.h>

static unsigned high_of(const struct region_layout *layout)
{
    uint32_t high = atomic_load_explicit(&layout->shares_high, memory_order_acquire);

    return high > REGION_SHARES ? REGION_SHARES : high;
}

static enum share_state state_of(const struct region_share *share)
{
    return atomic_load_explicit(&share->state, memory_order_acquire);
}

static bool has(const struct region_share *share, unsigned slot)
{
    return share->holder[slot / 64] >> slot % 64 & 1;
}

/* The first slot that has it; VGPU_PROCS_MAX: none. */
static unsigned first_holder(const struct region_share *share)
{
    for (unsigned word = 0; word < VGPU_PROCS_MAX / 64; word++) {
        if (share->holder[word])
            return word * 64 + (unsigned)__builtin_ctzll(share->holder[word]);
    }
    return VGPU_PROCS_MAX;
}

/* The bytes that an entry counts for: 0 unless it is in SHARE_LEFT. */
static uint64_t left_bytes(const struct region_share *share)
{
    return state_of(share) == SHARE_LEFT ? load_relaxed(&share->bytes) : 0;
}

/* The vdev of an entry; VGPU_VDEVS if the word is damaged. */
static unsigned vdev_of(const struct region_share *share)
{
    uint32_t vdev = atomic_load_explicit(&share->vdev, memory_order_relaxed);

    return vdev < VGPU_VDEVS ? vdev : VGPU_VDEVS;
}

static unsigned kind_of(const struct region_share *share)
{
    uint32_t kind = atomic_load_explicit(&share->kind, memory_order_relaxed);

    return kind < VGPU_KINDS ? kind : VGPU_KINDS;
}

uint64_t shares_left(const struct region_layout *layout, unsigned group, unsigned vdev)
{
    unsigned high = high_of(layout);
    uint64_t bytes = 0;

    for (unsigned i = 0; i < high; i++) {
        if (vdev_of(&layout->share[i]) == vdev &&
            (!group || region_group(&layout->share[i].group) == group))
            bytes = add_saturated(bytes, left_bytes(&layout->share[i]));
    }
    return bytes;
}

bool shares_of_group(const struct region_layout *layout, unsigned group)
{
    unsigned high = high_of(layout);

    for (unsigned i = 0; i < high; i++) {
        if (state_of(&layout->share[i]) == SHARE_LEFT &&
            region_group(&layout->share[i].group) == group)
            return true;
    }
    return false;
}

void shares_show(const struct region_layout *layout,
                 struct vgpu_proc_usage *const proc[VGPU_PROCS_MAX])
{
    unsigned high = high_of(layout);

    for (unsigned i = 0; i < high; i++) {
        const struct region_share *share = &layout->share[i];
        uint64_t bytes = left_bytes(share);
        unsigned slot = first_holder(share), vdev = vdev_of(share), kind = kind_of(share);

        if (bytes > 0 && slot < VGPU_PROCS_MAX && proc[slot] && vdev < VGPU_VDEVS &&
            kind < VGPU_KINDS)
            proc[slot]->held_bytes[vdev][kind] =
                add_saturated(proc[slot]->held_bytes[vdev][kind], bytes);
    }
}

bool shares_next(const struct region_layout *layout, unsigned *at, struct shares_view *ret_view)
{
    for (unsigned high = high_of(layout); *at < high;) {
        const struct region_share *share = &layout->share[*at];
        uint32_t generation = atomic_load_explicit(&share->generation, memory_order_acquire);
        bool used = state_of(share) != SHARE_FREE;

        *ret_view = (struct shares_view){.ref = {*at, generation},
                                         .vdev = vdev_of(share),
                                         .kind = kind_of(share),
                                         .bytes = load_relaxed(&share->bytes)};
        for (unsigned i = 0; i < REGION_SHARE_KEYS; i++)
            ret_view->key[i] = load_relaxed(&share->key[i]);
        atomic_thread_fence(memory_order_acquire);
        used = used && generation == atomic_load_explicit(&share->generation, memory_order_relaxed);
        ++*at;
        if (used && ret_view->vdev < VGPU_VDEVS && (unsigned)ret_view->kind < VGPU_KINDS)
            return true;
    }
    return false;
}

static struct region_share *find(struct region_layout *layout, struct shares_ref ref)
{
    struct region_share *share = &layout->share[ref.index % REGION_SHARES];

    if (atomic_load_explicit(&share->generation, memory_order_relaxed) != ref.generation ||
        state_of(share) == SHARE_FREE)
        return NULL;
    return share;
}

int shares_new(struct region_layout *layout, unsigned maker, unsigned vdev, enum vgpu_kind kind,
               uint64_t bytes, struct shares_ref *ret_ref)
{
    unsigned high = high_of(layout), index = 0;
    struct region_share *share;

    while (index < high && state_of(&layout->share[index]) != SHARE_FREE)
        index++;
    if (index == REGION_SHARES)
        return -ENOSPC;
    share = &layout->share[index];
    *ret_ref = (struct shares_ref){
        index, atomic_load_explicit(&share->generation, memory_order_relaxed) + 1};
    atomic_store_explicit(&share->generation, ret_ref->generation, memory_order_release);
    atomic_store_explicit(&share->vdev, vdev, memory_order_relaxed);
    atomic_store_explicit(&share->kind, (uint16_t)kind, memory_order_relaxed);
    atomic_store_explicit(&share->group, (uint16_t)slot_group(layout, maker), memory_order_relaxed);
    store_relaxed(&share->bytes, bytes);
    share->maker = maker;
    share->key_count = 0;
    for (unsigned i = 0; i < REGION_SHARE_KEYS; i++)
        store_relaxed(&share->key[i], 0);
    memset(share->holder, 0, sizeof(share->holder));
    share->holder[maker / 64] |= 1ULL << maker % 64;
    atomic_store_explicit(&share->state, SHARE_MADE, memory_order_release);
    if (index == high)
        atomic_store_explicit(&layout->shares_high, index + 1, memory_order_release);
    return 0;
}

void shares_add_key(struct region_layout *layout, struct shares_ref ref, uint64_t key)
{
    struct region_share *share = find(layout, ref);

    for (unsigned i = 0; share && i < REGION_SHARE_KEYS; i++) {
        if (load_relaxed(&share->key[i]) == key)
            return;
    }
    if (share)
        store_relaxed(&share->key[share->key_count++ % REGION_SHARE_KEYS], key);
}

bool shares_join(struct region_layout *layout, struct shares_ref ref, unsigned slot)
{
    struct region_share *share = find(layout, ref);

    if (share)
        share->holder[slot / 64] |= 1ULL << slot % 64;
    return share != NULL;
}

static bool leave(struct region_layout *layout, struct region_share *share, unsigned slot)
{
    bool made = state_of(share) == SHARE_MADE, maker = made && share->maker == slot;
    unsigned vdev = vdev_of(share);

    share->holder[slot / 64] &= ~(1ULL << slot % 64);
    if (first_holder(share) == VGPU_PROCS_MAX) {
        uint64_t bytes = left_bytes(share);

        atomic_store_explicit(&share->state, SHARE_FREE, memory_order_release);
        if (vdev < VGPU_VDEVS)
            region_total_sub(layout, region_group(&share->group), vdev, bytes);
    } else if (maker && vdev < VGPU_VDEVS) {
        atomic_store_explicit(&share->state, SHARE_LEFT, memory_order_release);
        region_total_add(layout, region_group(&share->group), vdev, load_relaxed(&share->bytes));
        return true;
    }
    return false;
}

bool shares_leave(struct region_layout *layout, struct shares_ref ref, unsigned slot)
{
    struct region_share *share = find(layout, ref);

    return share && has(share, slot) && leave(layout, share, slot);
}

void shares_forget(struct region_layout *layout, unsigned slot)
{
    unsigned high = high_of(layout);

    for (unsigned i = 0; i < high; i++) {
        struct region_share *share = &layout->share[i];

        if (state_of(share) != SHARE_FREE && has(share, slot))
            leave(layout, share, slot);
    }
}

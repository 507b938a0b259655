#include "core/gang.h"

#include "core/lease_internal.h"

void gang_set(struct lease *lease, struct vgpu_arena *const *others, unsigned count)
{
    unsigned devices = count + 1;
    uint32_t word;

    for (unsigned i = 0; i < LEASE_OTHERS; i++)
        STORE(lease->others[i], i < count ? others[i] : NULL);
    if (lease->self.devices == devices)
        return;
    lease->self.devices = devices;
    if (lease->tenant >= ARENA_TENANTS || !arena_lock(lease->arena, lease->index, &word))
        return;
    turns_tenant(lease->arena->layout, &lease->self);
    arena_unlock(lease->arena, word);
}

/* What a tenant does on a device. */
struct presence {
    bool busy;
    uint32_t passed; /* its launches of the turn */
};

static struct presence find(const struct vgpu_arena *arena, uint64_t id, uint64_t now_ns)
{
    struct presence presence = {.busy = false};
    unsigned tenant = 0;

    while (tenant < ARENA_TENANTS && LOAD(arena->layout->tenant[tenant].id) != id)
        tenant++;
    for (unsigned i = 0; i < arena_pages_high(arena) && tenant < ARENA_TENANTS; i++) {
        const struct arena_page *page = &arena->layout->page[i];

        if (!turns_page_of(page, tenant) || !LOAD(page->active))
            continue;
        presence.busy = presence.busy || !turns_idle(page, now_ns);
        presence.passed += LOAD(page->passed);
    }
    return presence;
}

bool gang_behind(const struct lease *lease, uint64_t now_ns)
{
    struct presence here = find(lease->arena, lease->self.id, now_ns);

    for (unsigned i = 0; i < LEASE_OTHERS; i++) {
        const struct vgpu_arena *other = LOAD(lease->others[i]);
        struct presence there;

        if (!other)
            return false;
        there = find(other, lease->self.id, now_ns);
        if (there.busy && there.passed > here.passed)
            return true;
    }
    return false;
}

bool gang_busy(const struct lease *lease, uint64_t id, uint64_t now_ns)
{
    return find(lease->arena, id, now_ns).busy || gang_busy_elsewhere(lease, id, now_ns);
}

bool gang_busy_elsewhere(const struct lease *lease, uint64_t id, uint64_t now_ns)
{
    for (unsigned i = 0; i < LEASE_OTHERS; i++) {
        const struct vgpu_arena *other = LOAD(lease->others[i]);

        if (!other)
            return false;
        if (find(other, id, now_ns).busy)
            return true;
    }
    return false;
}

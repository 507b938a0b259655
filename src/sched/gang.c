#include "sched/gang.h"

#include "sched/sched.h"

void gang_set(struct sched_client *client, struct vgpu_arena *const *others, unsigned count)
{
    unsigned devices = count + 1;
    uint32_t word;

    for (unsigned i = 0; i < SCHED_OTHERS; i++)
        STORE(client->others[i], i < count ? others[i] : NULL);
    if (client->self.devices == devices)
        return;
    client->self.devices = devices;
    if (client->tenant >= ARENA_TENANTS || !arena_lock(client->arena, client->index, &word))
        return;
    sched_tenant(client->arena->layout, &client->self);
    arena_unlock(client->arena, word);
}

/* What a tenant does on a device. */
struct presence {
    bool busy;
    uint32_t submitted_launches; /* its launches of the turn */
};

static struct presence find(const struct vgpu_arena *arena, uint64_t id, uint64_t now_ns)
{
    struct presence presence = {.busy = false};
    unsigned tenant = 0;

    while (tenant < ARENA_TENANTS && LOAD(arena->layout->tenant[tenant].id) != id)
        tenant++;
    for (unsigned i = 0; i < arena_pages_high(arena) && tenant < ARENA_TENANTS; i++) {
        const struct arena_page *page = &arena->layout->page[i];

        if (!sched_page_of(page, tenant) || !LOAD(page->active))
            continue;
        presence.busy = presence.busy || !sched_idle(page, now_ns);
        presence.submitted_launches += LOAD(page->submitted_launches);
    }
    return presence;
}

bool gang_behind(const struct sched_client *client, uint64_t now_ns)
{
    struct presence here = find(client->arena, client->self.id, now_ns);

    for (unsigned i = 0; i < SCHED_OTHERS; i++) {
        const struct vgpu_arena *other = LOAD(client->others[i]);
        struct presence there;

        if (!other)
            return false;
        there = find(other, client->self.id, now_ns);
        if (there.busy && there.submitted_launches > here.submitted_launches)
            return true;
    }
    return false;
}

bool gang_busy(const struct sched_client *client, uint64_t id, uint64_t now_ns)
{
    return find(client->arena, id, now_ns).busy || gang_busy_elsewhere(client, id, now_ns);
}

bool gang_busy_elsewhere(const struct sched_client *client, uint64_t id, uint64_t now_ns)
{
    for (unsigned i = 0; i < SCHED_OTHERS; i++) {
        const struct vgpu_arena *other = LOAD(client->others[i]);

        if (!other)
            return false;
        if (find(other, id, now_ns).busy)
            return true;
    }
    return false;
}

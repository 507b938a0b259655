/* The share of a device's time that an instance is entitled to. */
#include "cli/ps.h"
#include "sched/arena_list.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The instances that take turns on a device with one user's, read once. */
struct ps_arena {
    char uuid[VGPU_UUID_LEN];
    uid_t user;
    struct arena_view view; /* empty if it cannot be read */
    struct ps_arena *next;
};

static const struct arena_view *view_of(struct ps_list *list, const char *uuid, uid_t user)
{
    struct ps_arena *arena;

    for (arena = list->arenas; arena; arena = arena->next)
        if (arena->user == user && !strcmp(arena->uuid, uuid))
            return &arena->view;
    arena = calloc(1, sizeof(*arena));
    if (!arena)
        return NULL;
    strncpy(arena->uuid, uuid, sizeof(arena->uuid) - 1);
    arena->user = user;
    if (arena_view(uuid, user, &arena->view) < 0)
        arena->view.count = 0;
    arena->next = list->arenas;
    list->arenas = arena;
    return &arena->view;
}

void ps_arenas_done(struct ps_list *list)
{
    while (list->arenas) {
        struct ps_arena *next = list->arenas->next;

        free(list->arenas);
        list->arenas = next;
    }
}

/* The usage of a device by an instance; NULL: it has not seen the device. */
static const struct vgpu_compute_usage *usage_of(const struct ps_instance *instance,
                                                 const char *uuid)
{
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        if (!strcasecmp(instance->snapshot.vdev[vdev].uuid, uuid))
            return &instance->snapshot.vdev[vdev].compute;
    return NULL;
}

static uint64_t weights_in_arena(const struct arena_view *view, uint64_t except)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < view->count; i++)
        sum += view->member[i].state != TENANT_INACTIVE && view->member[i].id != except
                   ? view->member[i].weight
                   : 0;
    return sum;
}

static uint64_t weights_in_list(const struct ps_list *list, const struct ps_instance *instance,
                                const char *uuid)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < list->count; i++) {
        const struct ps_instance *other = list->instances[i];
        const struct vgpu_compute_usage *usage = other == instance ? NULL : usage_of(other, uuid);

        sum += usage && usage->last_second_ns ? other->snapshot.limits.compute.weight : 0;
    }
    return sum;
}

double ps_entitlement(struct ps_list *list, const struct ps_instance *instance, unsigned vdev,
                      bool *ret_complete)
{
    const struct vgpu_limits *limits = &instance->snapshot.limits;
    const char *uuid = instance->snapshot.vdev[vdev].uuid;
    const struct arena_view *view = *uuid ? view_of(list, uuid, instance->owner) : NULL;
    double own = limits->compute.weight ? limits->compute.weight : VGPU_WEIGHT_DEFAULT;
    double cap = limits->vdev[vdev].cap_percent ? limits->vdev[vdev].cap_percent / 100.0 : 1, share;
    uint64_t others = 0;

    if (*uuid)
        others = view && view->count ? weights_in_arena(view, instance->id)
                                     : weights_in_list(list, instance, uuid);
    share = own / (own + (double)others);
    *ret_complete = !view || !view->hidden;
    if (limits->compute.cap_policy == VGPU_CAP_OFF ||
        (limits->compute.cap_policy == VGPU_CAP_ELASTIC && !others))
        return share;
    return share < cap ? share : cap;
}

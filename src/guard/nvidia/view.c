#include "guard/guard_internal.h"

#define KIB 1024u

static uint32_t at_most(uint32_t value, uint64_t bytes)
{
    return value < bytes / KIB ? value : (uint32_t)(bytes / KIB);
}

/* What is there for the instance, and what is left of it. False: it has no quota on the card. */
static bool share_of(struct guard *guard, unsigned vdev, uint64_t *ret_total, uint64_t *ret_free)
{
    uint64_t quota = processes_quota(guard, vdev), used = processes_used(guard, vdev);

    *ret_total = quota;
    *ret_free = used < quota ? quota - used : 0;
    return quota > 0;
}

void view_heap(struct guard *guard, unsigned vdev, uint64_t *total, uint64_t *available)
{
    uint64_t most, left;

    if (!share_of(guard, vdev, &most, &left))
        return;
    if (*total > most)
        *total = most;
    if (*available > left)
        *available = left;
}

void view_fb_info(struct guard *guard, unsigned vdev, struct rm_fb_info_item *items, uint32_t count)
{
    uint64_t total, available;

    if (!share_of(guard, vdev, &total, &available))
        return;
    for (uint32_t i = 0; i < count && i < RM_FB_INFO_MAX; i++) {
        switch (items[i].index) {
        case RM_FB_RAM_SIZE:
        case RM_FB_TOTAL_RAM_SIZE:
        case RM_FB_USABLE_RAM_SIZE:
        case RM_FB_HEAP_SIZE:
        case RM_FB_MAPPABLE_HEAP_SIZE:
            items[i].value = at_most(items[i].value, total);
            break;
        case RM_FB_HEAP_FREE:
        case RM_FB_LARGEST_FREE_REGION_SIZE:
            items[i].value = at_most(items[i].value, available);
            break;
        default:
            break;
        }
    }
}

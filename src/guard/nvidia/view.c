#include "guard/nvidia/vdevs.h"
#include "guard/nvidia/quota.h"
#include "guard/nvidia/request.h"

#define KIB 1024u

static uint32_t at_most(uint32_t value, uint64_t bytes)
{
    return value < bytes / KIB ? value : (uint32_t)(bytes / KIB);
}

/* The instance's quota, and what is left of it. False: it has none on the device. */
static bool share_of(const struct nvidia *nvidia, unsigned vdev, uint64_t *ret_total,
                     uint64_t *ret_free)
{
    uint64_t quota = quota_bytes(nvidia, vdev), used = quota_used(nvidia, vdev);

    *ret_total = quota;
    *ret_free = used < quota ? quota - used : 0;
    return quota > 0;
}

static void view_heap(const struct nvidia *nvidia, unsigned vdev, uint64_t *total,
                      uint64_t *available)
{
    uint64_t most, left;

    if (!share_of(nvidia, vdev, &most, &left))
        return;
    if (*total > most)
        *total = most;
    if (*available > left)
        *available = left;
}

static void view_fb_info(const struct nvidia *nvidia, unsigned vdev, struct rm_fb_info_item *items,
                         uint32_t count)
{
    uint64_t total, available;

    if (!share_of(nvidia, vdev, &total, &available))
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

void view_rewrite(struct request *request)
{
    const struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;
    struct rm_bytes *rm = &request->rm;
    struct rm_vid_heap_control *heap = (struct rm_vid_heap_control *)rm->arg;
    struct rm_fb_info *info = (struct rm_fb_info *)rm->params;
    bool is_heap = call->kind == RM_KIND_HEAP_ALLOC || call->kind == RM_KIND_HEAP_FREE ||
                   call->kind == RM_KIND_HEAP_OTHER;
    unsigned vdev;

    if ((call->kind != RM_KIND_CONTROL && !is_heap) ||
        vdevs_find(request->nvidia, request->file, call->client,
                   is_heap ? call->parent : call->handle, &vdev) < 0)
        return;
    if (is_heap)
        view_heap(nvidia, vdev, &heap->total, &heap->free);
    else if (call->control == RM_CTRL_FB_GET_INFO_V2)
        view_fb_info(nvidia, vdev, info->item, info->count);
    else if (call->control == RM_CTRL_FB_GET_INFO && rm->list_bytes)
        view_fb_info(nvidia, vdev, (struct rm_fb_info_item *)rm->list,
                     (uint32_t)(rm->list_bytes / sizeof(struct rm_fb_info_item)));
}

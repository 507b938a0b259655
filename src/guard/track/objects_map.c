/* UVM's spaces: external ranges, and the mappings in them, which hold memory. */
#include "guard/track/objects_internal.h"

#include "base/cleanup.h"
#include "base/random.h"

static uint32_t next_random(struct objects *objects)
{
    return (uint32_t)(random_next(&objects->random) >> 32);
}

static struct mapping *mapping_of(struct interval *interval)
{
    return (struct mapping *)interval; /* its first member */
}

/* The last address; false: there is none, and the driver refuses the call. */
static bool last_of(uint64_t base, uint64_t length, uint64_t *ret_last)
{
    if (length == 0 || base + (length - 1) < base)
        return false;
    *ret_last = base + (length - 1);
    return true;
}

static struct space *find_space(const struct objects *objects, uint32_t number)
{
    return hash_find(&objects->spaces, number);
}

int objects_space(struct objects *objects, uint32_t number, uint32_t owner)
{
    return holder_get(objects, &objects->spaces, HOLDER_SPACE, number, owner);
}

/*
 * The devices of a space that have mappings. The list is as short as the driver's.
 */

static struct space_gpu **find_gpu(struct space *space, uint32_t gpu)
{
    struct space_gpu **place = &space->gpus;

    while (*place && (*place)->gpu != gpu)
        place = &(*place)->next;
    return place;
}

static int get_gpu(struct objects *objects, struct space *space, uint32_t number,
                   struct space_gpu **ret_gpu)
{
    struct space_gpu *gpu = *find_gpu(space, number);
    int rc;

    if (!gpu) {
        if (space->gpu_count >= OBJECTS_SPACE_GPUS)
            return -ENOSPC;
        rc = item_new(objects, ITEM_SPACE_GPU, &gpu);
        if (rc)
            return rc;
        *gpu = (struct space_gpu){.gpu = number, .next = space->gpus};
        space->gpus = gpu;
        space->gpu_count++;
    }
    *ret_gpu = gpu;
    return 0;
}

/* Removes the device if it has no mappings. True: it is gone, and *place is the next one. */
static bool put_gpu(struct objects *objects, struct space *space, struct space_gpu **place)
{
    struct space_gpu *gpu = *place;

    if (!gpu || gpu->mappings)
        return false;
    *place = gpu->next;
    space->gpu_count--;
    item_free(objects, ITEM_SPACE_GPU, gpu);
    return true;
}

/*
 * Mappings.
 */

static void insert(struct objects *objects, struct space_gpu *gpu, struct mapping *mapping)
{
    intervals_insert(&gpu->mappings, &mapping->interval, next_random(objects));
}

static void mapping_end(struct objects *objects, struct mapping *mapping)
{
    reference_drop(objects, &mapping->reference);
    item_free(objects, ITEM_MAPPING, mapping);
}

/* Takes the addresses out of a mapping, which is in no tree, and puts back what is left. */
static void cut(struct objects *objects, struct space_gpu *gpu, struct mapping *mapping,
                uint64_t first, uint64_t last)
{
    struct mapping *rest;

    if (mapping->interval.first < first && mapping->interval.last > last) {
        /* Without room for the second part the mapping stays whole, and so does the charge. */
        if (item_new(objects, ITEM_MAPPING, &rest) == 0) {
            rest->interval.first = last + 1;
            rest->interval.last = mapping->interval.last;
            reference_split(objects, &rest->reference, &mapping->reference);
            insert(objects, gpu, rest);
            mapping->interval.last = first - 1;
        }
    } else if (mapping->interval.first < first) {
        mapping->interval.last = first - 1;
    } else if (mapping->interval.last > last) {
        mapping->interval.first = last + 1;
    } else {
        mapping_end(objects, mapping);
        return;
    }
    insert(objects, gpu, mapping);
}

static void unmap(struct objects *objects, struct space_gpu *gpu, uint64_t first, uint64_t last)
{
    struct interval *found = NULL, *interval;

    /* All of them first, so that no part that is put back is found again. */
    while ((interval = intervals_overlap(gpu->mappings, first, last))) {
        intervals_remove(&gpu->mappings, interval);
        interval->left = found;
        found = interval;
    }
    while (found) {
        interval = found;
        found = interval->left;
        cut(objects, gpu, mapping_of(interval), first, last);
    }
}

static void unmap_everywhere(struct objects *objects, struct space *space, uint64_t first,
                             uint64_t last)
{
    for (struct space_gpu **place = &space->gpus; *place;) {
        unmap(objects, *place, first, last);
        if (!put_gpu(objects, space, place))
            place = &(*place)->next;
    }
}

static int new_mapping(struct objects *objects, struct space *space, uint32_t number,
                       uint64_t first, uint64_t last, struct mapping **ret_mapping)
{
    struct space_gpu *gpu = *find_gpu(space, number);
    struct mapping *mapping;
    int rc;

    if (gpu && intervals_count(gpu->mappings, first, last, OBJECTS_OVERLAPS) >= OBJECTS_OVERLAPS)
        return -ENOSPC;
    rc = item_new(objects, ITEM_MAPPING, &mapping);
    if (rc)
        return rc;
    rc = get_gpu(objects, space, number, &gpu);
    if (rc) {
        item_free(objects, ITEM_MAPPING, mapping);
        return rc;
    }
    mapping->interval.first = first;
    mapping->interval.last = last;
    insert(objects, gpu, mapping);
    *ret_mapping = mapping;
    return 0;
}

static void take_back(struct objects *objects, struct space *space, uint32_t number,
                      struct mapping *mapping)
{
    struct space_gpu **gpu = find_gpu(space, number);

    intervals_remove(&(*gpu)->mappings, &mapping->interval);
    put_gpu(objects, space, gpu);
    item_free(objects, ITEM_MAPPING, mapping);
}

int objects_map(struct objects *objects, uint32_t space_number, uint64_t base, uint64_t length,
                const uint32_t *gpus, unsigned count, uint32_t client, uint32_t memory)
{
    const struct object *object = hash_find(&objects->objects, pair(client, memory));
    struct space *space = find_space(objects, space_number);
    struct mapping *made[OBJECTS_SPACE_GPUS];
    uint64_t last;
    unsigned done;
    int rc = 0;

    if (!space)
        return -ENOENT;
    if (!last_of(base, length, &last) || count > OBJECTS_SPACE_GPUS)
        return -EINVAL;
    if (!object || !object->reference.allocation)
        return 0;
    for (done = 0; done < count && rc == 0; done += rc == 0)
        rc = new_mapping(objects, space, gpus[done], base, last, &made[done]);
    if (rc) {
        while (done-- > 0)
            take_back(objects, space, gpus[done], made[done]);
        return rc;
    }
    for (unsigned i = 0; i < count; i++)
        reference_add(objects, &made[i]->reference, &space->holder, object->reference.allocation);
    return 0;
}

void objects_unmap(struct objects *objects, uint32_t space_number, uint64_t base, uint64_t length,
                   uint32_t number)
{
    struct space *space = find_space(objects, space_number);
    struct space_gpu **gpu = space ? find_gpu(space, number) : NULL;
    uint64_t last;

    if (!gpu || !*gpu || !last_of(base, length, &last))
        return;
    unmap(objects, *gpu, base, last);
    put_gpu(objects, space, gpu);
}

/*
 * Ranges.
 */

static void range_end(struct objects *objects, struct space *space, struct range *range)
{
    intervals_remove(&space->ranges, &range->interval);
    unmap_everywhere(objects, space, range->interval.first, range->interval.last);
    item_free(objects, ITEM_RANGE, range);
}

int objects_range(struct objects *objects, uint32_t space_number, uint64_t base, uint64_t length)
{
    struct space *space = find_space(objects, space_number);
    struct range *range;
    struct interval *old;
    uint64_t last;
    int rc;

    if (!space)
        return -ENOENT;
    if (!last_of(base, length, &last))
        return -EINVAL;
    rc = item_new(objects, ITEM_RANGE, &range);
    if (rc)
        return rc;
    while ((old = intervals_overlap(space->ranges, base, last)))
        range_end(objects, space, (struct range *)old);
    unmap_everywhere(objects, space, base, last);
    range->interval.first = base;
    range->interval.last = last;
    intervals_insert(&space->ranges, &range->interval, next_random(objects));
    return 0;
}

/* The mappings that begin here, on all devices. */
static void unmap_beginning(struct objects *objects, struct space *space, uint64_t first)
{
    for (struct space_gpu **place = &space->gpus; *place;) {
        struct interval *interval;

        while ((interval = intervals_at((*place)->mappings, first))) {
            intervals_remove(&(*place)->mappings, interval);
            mapping_end(objects, mapping_of(interval));
        }
        if (!put_gpu(objects, space, place))
            place = &(*place)->next;
    }
}

void objects_unmap_all(struct objects *objects, uint32_t space_number, uint64_t base)
{
    struct space *space = find_space(objects, space_number);
    struct interval *range;

    if (!space)
        return;
    range = intervals_at(space->ranges, base);
    if (range)
        range_end(objects, space, (struct range *)range);
    else
        unmap_beginning(objects, space, base);
}

/*
 * Ends.
 */

void space_end(struct objects *objects, struct space *space)
{
    while (space->ranges)
        range_end(objects, space, (struct range *)space->ranges);
    unmap_everywhere(objects, space, 0, UINT64_MAX);
    hash_take(&objects->spaces, space->holder.number);
    holder_end(objects, &space->holder);
    item_free(objects, ITEM_SPACE, space);
}

bool objects_space_is_used(const struct objects *objects, uint32_t number, uint32_t owner)
{
    return hash_find(&objects->uses[HOLDER_SPACE], pair(owner, number)) != NULL;
}

void objects_space_gone(struct objects *objects, uint32_t number)
{
    struct space *space = find_space(objects, number);

    if (space)
        space_end(objects, space);
}

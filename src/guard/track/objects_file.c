/* Files that hold memory. */
#include "guard/track/objects_internal.h"

#include <errno.h>

static struct place *find_place(const struct objects *objects, uint32_t file, uint32_t place)
{
    return hash_find(&objects->places, pair(file, place));
}

int objects_file(struct objects *objects, uint32_t number, uint32_t owner)
{
    return holder_get(objects, &objects->files, HOLDER_FILE, number, owner);
}

static void place_end(struct objects *objects, struct place *place)
{
    if (place->held.allocation)
        reference_drop(objects, &place->held);
    if (place->coming.allocation)
        reference_drop(objects, &place->coming);
    if (place->previous)
        place->previous->next = place->next;
    else
        place->file->places = place->next;
    if (place->next)
        place->next->previous = place->previous;
    hash_take(&objects->places, pair(place->file->holder.number, place->number));
    item_free(objects, ITEM_PLACE, place);
}

static int place_get(struct objects *objects, struct file *file, uint32_t number,
                     struct place **ret_place)
{
    struct place *place = find_place(objects, file->holder.number, number);
    int rc = place ? 0 : item_new(objects, ITEM_PLACE, &place);

    if (rc)
        return rc;
    *ret_place = place;
    if (place->file)
        return 0;
    rc = hash_add(&objects->places, pair(file->holder.number, number), place);
    if (rc) {
        item_free(objects, ITEM_PLACE, place);
        return rc;
    }
    place->number = number;
    place->file = file;
    place->next = file->places;
    if (place->next)
        place->next->previous = place;
    file->places = place;
    return 0;
}

int objects_file_prepare(struct objects *objects, uint32_t number, uint32_t place_number,
                         uint32_t client, uint32_t memory)
{
    const struct object *object = hash_find(&objects->objects, pair(client, memory));
    struct file *file = hash_find(&objects->files, number);
    struct place *place;
    int rc;

    if (!file)
        return -ENOENT;
    if (!object || !object->reference.allocation)
        return 0;
    rc = place_get(objects, file, place_number, &place);
    if (rc)
        return rc;
    if (place->coming.allocation)
        reference_drop(objects, &place->coming);
    reference_add(objects, &place->coming, &file->holder, object->reference.allocation);
    return 0;
}

void objects_file_commit(struct objects *objects, uint32_t number, uint32_t place_number)
{
    struct place *place = find_place(objects, number, place_number);

    if (!place)
        return;
    if (place->held.allocation)
        reference_drop(objects, &place->held);
    if (!place->coming.allocation) {
        place_end(objects, place);
        return;
    }
    reference_add(objects, &place->held, &place->file->holder, place->coming.allocation);
    reference_drop(objects, &place->coming);
}

void objects_file_cancel(struct objects *objects, uint32_t number, uint32_t place_number)
{
    struct place *place = find_place(objects, number, place_number);

    if (place && place->coming.allocation)
        reference_drop(objects, &place->coming);
    if (place && !place->held.allocation)
        place_end(objects, place);
}

struct allocation *held_in(const struct objects *objects, uint32_t number, uint32_t place_number)
{
    const struct place *place = find_place(objects, number, place_number);

    return place ? place->held.allocation : NULL;
}

void file_end(struct objects *objects, struct file *file)
{
    while (file->places)
        place_end(objects, file->places);
    hash_take(&objects->files, file->holder.number);
    holder_end(objects, &file->holder);
    item_free(objects, ITEM_FILE, file);
}

void objects_file_gone(struct objects *objects, uint32_t number)
{
    struct file *file = hash_find(&objects->files, number);

    if (file)
        file_end(objects, file);
}

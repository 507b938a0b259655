/* Items and their limit, owners, holders, references, charges. */
#include "guard/track/objects_internal.h"

#include "base/cleanup.h"

#include <string.h>

/*
 * Items. A freed one is kept as the spare, so a pair of allocation and free needs no malloc().
 */

static const size_t item_bytes[ITEMS] = {
    [ITEM_OWNER] = sizeof(struct owner),           [ITEM_USE] = sizeof(struct use),
    [ITEM_ALLOCATION] = sizeof(struct allocation), [ITEM_OBJECT] = sizeof(struct object),
    [ITEM_CLIENT] = sizeof(struct client),         [ITEM_SPACE] = sizeof(struct space),
    [ITEM_SPACE_GPU] = sizeof(struct space_gpu),   [ITEM_RANGE] = sizeof(struct range),
    [ITEM_MAPPING] = sizeof(struct mapping),       [ITEM_FILE] = sizeof(struct file),
    [ITEM_PLACE] = sizeof(struct place),
};

int item_reserve(struct objects *objects, enum item item)
{
    KEEP_ERRNO;

    if (!objects->spare[item])
        objects->spare[item] = calloc(1, item_bytes[item]);
    return objects->spare[item] ? 0 : -ENOMEM;
}

int item_new(struct objects *objects, enum item item, void *ret_pointer_to_pointer)
{
    if (objects->count >= objects->limit)
        return -ENOSPC;
    if (item_reserve(objects, item))
        return -ENOMEM;
    *(void **)ret_pointer_to_pointer = objects->spare[item];
    objects->spare[item] = NULL;
    objects->count++;
    return 0;
}

void item_free(struct objects *objects, enum item item, void *pointer)
{
    if (!pointer)
        return;
    objects->count--;
    if (objects->spare[item]) {
        free(pointer);
    } else {
        memset(pointer, 0, item_bytes[item]);
        objects->spare[item] = pointer;
    }
}

/*
 * Owners and their uses.
 */

static int owner_get(struct objects *objects, uint32_t number, struct owner **ret_owner)
{
    struct owner *owner = hash_find(&objects->owners, number);
    int rc;

    if (!owner) {
        rc = item_new(objects, ITEM_OWNER, &owner);
        if (rc)
            return rc;
        owner->number = number;
        rc = hash_add(&objects->owners, number, owner);
        if (rc) {
            item_free(objects, ITEM_OWNER, owner);
            return rc;
        }
        owner->next = objects->first_owner;
        if (owner->next)
            owner->next->previous = owner;
        objects->first_owner = owner;
    }
    *ret_owner = owner;
    return 0;
}

/* An owner exists while it uses something, and until its last charges were taken. */
static void owner_put(struct objects *objects, struct owner *owner)
{
    if (owner->uses || owner->changed)
        return;
    if (owner->previous)
        owner->previous->next = owner->next;
    else
        objects->first_owner = owner->next;
    if (owner->next)
        owner->next->previous = owner->previous;
    hash_take(&objects->owners, owner->number);
    item_free(objects, ITEM_OWNER, owner);
}

static struct hash *uses_of(struct objects *objects, const struct holder *holder)
{
    return &objects->uses[holder->kind];
}

static void owner_link(struct owner *owner, struct use *use)
{
    use->owner = owner;
    use->previous = NULL;
    use->next = owner->uses;
    if (use->next)
        use->next->previous = use;
    owner->uses = use;
}

static void owner_unlink(struct use *use)
{
    if (use->previous)
        use->previous->next = use->next;
    else
        use->owner->uses = use->next;
    if (use->next)
        use->next->previous = use->previous;
}

int holder_use(struct objects *objects, struct holder *holder, uint32_t number)
{
    struct hash *uses = uses_of(objects, holder);
    struct owner *owner;
    struct use *use;
    int rc;

    if (hash_find(uses, pair(number, holder->number)))
        return 0;
    rc = owner_get(objects, number, &owner);
    if (rc)
        return rc;
    rc = item_new(objects, ITEM_USE, &use);
    if (rc == 0) {
        rc = hash_add(uses, pair(number, holder->number), use);
        if (rc)
            item_free(objects, ITEM_USE, use);
    }
    if (rc) {
        owner_put(objects, owner);
        return rc;
    }
    owner_link(owner, use);
    use->holder = holder;
    use->older = holder->newest;
    if (use->older)
        use->older->newer = use;
    else
        holder->oldest = use;
    holder->newest = use;
    return 0;
}

int holder_get(struct objects *objects, struct hash *holders, enum holder_kind kind,
               uint32_t number, uint32_t owner)
{
    enum item item = kind == HOLDER_SPACE ? ITEM_SPACE : ITEM_FILE;
    struct holder *holder = hash_find(holders, number); /* the first member of both */
    int rc;

    if (holder)
        return holder_use(objects, holder, owner);
    rc = item_new(objects, item, &holder);
    if (rc)
        return rc;
    *holder = (struct holder){.number = number, .kind = kind};
    rc = hash_add(holders, number, holder);
    if (rc == 0) {
        rc = holder_use(objects, holder, owner);
        if (rc)
            hash_take(holders, number);
    }
    if (rc)
        item_free(objects, item, holder);
    return rc;
}

static void use_end(struct objects *objects, struct use *use)
{
    struct holder *holder = use->holder;
    struct owner *owner = use->owner;

    if (use->older)
        use->older->newer = use->newer;
    else
        holder->oldest = use->newer;
    if (use->newer)
        use->newer->older = use->older;
    else
        holder->newest = use->older;
    owner_unlink(use);
    hash_take(uses_of(objects, holder), pair(owner->number, holder->number));
    item_free(objects, ITEM_USE, use);
    owner_put(objects, owner);
}

void holder_end(struct objects *objects, struct holder *holder)
{
    while (holder->oldest)
        use_end(objects, holder->oldest);
}

/*
 * Charges.
 */

static struct owner *charged_for(const struct reference *reference)
{
    return reference->holder->oldest->owner;
}

static void charge(struct objects *objects, struct owner *owner, unsigned vdev, uint64_t bytes,
                   int sign)
{
    owner->changed_bytes[vdev] += sign > 0 ? (int64_t)bytes : -(int64_t)bytes;
    if (!bytes || owner->changed)
        return;
    owner->changed = true;
    owner->next_changed = objects->changed;
    objects->changed = owner;
}

/* A change of this sign. */
static bool find_charge(const struct owner *owner, int sign, struct objects_charge *ret_charge)
{
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        int64_t bytes = owner->changed_bytes[vdev];

        if (sign > 0 ? bytes <= 0 : bytes >= 0)
            continue;
        *ret_charge = (struct objects_charge){.owner = owner->number, .vdev = vdev, .bytes = bytes};
        return true;
    }
    return false;
}

bool objects_next_charge(struct objects *objects, struct objects_charge *ret_charge)
{
    for (struct owner *owner = objects->changed; owner; owner = owner->next_changed) {
        if (find_charge(owner, 1, ret_charge)) {
            owner->changed_bytes[ret_charge->vdev] = 0;
            return true;
        }
    }
    while (objects->changed) {
        struct owner *owner = objects->changed;

        if (find_charge(owner, -1, ret_charge)) {
            owner->changed_bytes[ret_charge->vdev] = 0;
            return true;
        }
        objects->changed = owner->next_changed;
        owner->changed = false;
        owner_put(objects, owner);
    }
    return false;
}

static void move(struct objects *objects, struct owner *from, struct owner *to, unsigned vdev,
                 uint64_t bytes)
{
    if (from != to) {
        charge(objects, to, vdev, bytes, 1);
        charge(objects, from, vdev, bytes, -1);
    }
}

static void hold(struct objects *objects, struct reference *reference, struct holder *holder,
                 struct allocation *allocation)
{
    if (holder->kind == HOLDER_CLIENT && !reference->unnamed && allocation->names++ == 0)
        objects->named_bytes[allocation->vdev] += allocation->bytes;
    reference->allocation = allocation;
    reference->holder = holder;
    reference->previous = NULL;
    reference->next = holder->references;
    if (reference->next)
        reference->next->previous = reference;
    holder->references = reference;
}

void reference_add(struct objects *objects, struct reference *reference, struct holder *holder,
                   struct allocation *allocation)
{
    hold(objects, reference, holder, allocation);
    reference->newer = NULL;
    reference->older = allocation->newest;
    allocation->newest = reference;
    if (reference->older) {
        reference->older->newer = reference;
        return;
    }
    allocation->oldest = reference;
    objects->total_bytes[allocation->vdev] += allocation->charged_bytes;
    charge(objects, charged_for(reference), allocation->vdev, allocation->charged_bytes, 1);
}

void reference_split(struct objects *objects, struct reference *reference, struct reference *whole)
{
    hold(objects, reference, whole->holder, whole->allocation);
    reference->older = whole;
    reference->newer = whole->newer;
    if (reference->newer)
        reference->newer->older = reference;
    else
        whole->allocation->newest = reference;
    whole->newer = reference;
}

void reference_drop(struct objects *objects, struct reference *reference)
{
    struct allocation *allocation = reference->allocation;
    struct owner *owner = charged_for(allocation->oldest);

    if (reference->previous)
        reference->previous->next = reference->next;
    else
        reference->holder->references = reference->next;
    if (reference->next)
        reference->next->previous = reference->previous;
    if (reference->older)
        reference->older->newer = reference->newer;
    else
        allocation->oldest = reference->newer;
    if (reference->newer)
        reference->newer->older = reference->older;
    else
        allocation->newest = reference->older;
    reference->allocation = NULL;
    if (reference->holder->kind == HOLDER_CLIENT && !reference->unnamed && --allocation->names == 0)
        objects->named_bytes[allocation->vdev] -= allocation->bytes;
    if (allocation->oldest) {
        move(objects, owner, charged_for(allocation->oldest), allocation->vdev,
             allocation->charged_bytes);
        return;
    }
    objects->total_bytes[allocation->vdev] -= allocation->charged_bytes;
    charge(objects, owner, allocation->vdev, allocation->charged_bytes, -1);
    item_free(objects, ITEM_ALLOCATION, allocation);
}

/* The first user of the holder changes: what is charged through it moves, with one charge a device.
 *  */
static void recharge(struct objects *objects, const struct holder *holder, struct owner *from,
                     struct owner *to)
{
    uint64_t bytes[VGPU_DEVICES_MAX] = {0};

    for (struct reference *reference = holder->references; reference; reference = reference->next) {
        if (reference->allocation->oldest == reference)
            bytes[reference->allocation->vdev] += reference->allocation->charged_bytes;
    }
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        move(objects, from, to, vdev, bytes[vdev]);
}

/*
 * Ends of owners.
 */

void holder_leave(struct objects *objects, struct use *use)
{
    if (!use->older)
        recharge(objects, use->holder, use->owner, use->newer->owner);
    use_end(objects, use);
}

int objects_inherit(struct objects *objects, uint32_t number, uint32_t heir_number)
{
    struct owner *owner = hash_find(&objects->owners, number), *heir;
    struct use *next;
    int rc;

    if (!owner || number == heir_number)
        return 0;
    /* At the limit: one owner goes for the one that comes. */
    objects->limit++;
    rc = owner_get(objects, heir_number, &heir);
    objects->limit--;
    if (rc)
        return rc;
    for (struct use *use = owner->uses; use; use = next) {
        struct hash *uses = uses_of(objects, use->holder);

        next = use->next;
        if (hash_find(uses, pair(heir_number, use->holder->number))) {
            holder_leave(objects, use);
            continue;
        }
        hash_take(uses, pair(number, use->holder->number));
        hash_add(uses, pair(heir_number, use->holder->number), use);
        if (!use->older)
            recharge(objects, use->holder, owner, heir);
        owner_unlink(use);
        owner_link(heir, use);
        if (!owner->uses)
            owner_put(objects, owner);
    }
    return 0;
}

uint64_t objects_total(const struct objects *objects, unsigned vdev)
{
    return vdev < VGPU_DEVICES_MAX ? objects->total_bytes[vdev] : 0;
}

uint64_t objects_named(const struct objects *objects, unsigned vdev)
{
    return vdev < VGPU_DEVICES_MAX ? objects->named_bytes[vdev] : 0;
}

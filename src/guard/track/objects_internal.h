/*
 * Inside the model (objects.h). The driver keeps things alive for a process by a client or a UVM
 * space. All are a `holder` here: it has users, oldest first, and references to allocations. An
 * allocation is charged to the first user of the holder of its oldest reference.
 */
#ifndef VGPU_GUARD_OBJECTS_INTERNAL_H
#define VGPU_GUARD_OBJECTS_INTERNAL_H

#include "base/hash.h"
#include "guard/track/objects.h"
#include "guard/track/intervals.h"

struct owner {
    uint32_t number;
    struct owner *previous, *next; /* of all */
    struct use *uses;
    bool changed; /* its sums have changed, by the next: it is in the list of such owners */
    int64_t changed_bytes[VGPU_DEVICES_MAX];
    struct owner *next_changed;
};

/* An owner uses a holder. */
struct use {
    struct owner *owner;
    struct holder *holder;
    struct use *older, *newer;   /* of the holder */
    struct use *previous, *next; /* of the owner */
};

enum holder_kind { HOLDER_CLIENT, HOLDER_SPACE, HOLDER_FILE, HOLDER_KINDS };

struct holder {
    uint32_t number;
    enum holder_kind kind;
    struct use *oldest, *newest;
    struct reference *references;
};

struct allocation {
    uint64_t bytes, charged_bytes; /* 0 for foreign memory */
    unsigned vdev;
    unsigned names; /* references of clients' objects */
    struct reference *oldest, *newest;
};

struct reference {
    struct allocation *allocation; /* NULL: not in use */
    struct holder *holder;
    bool unnamed;                      /* a client's, but NVML does not count it */
    struct reference *older, *newer;   /* of the allocation */
    struct reference *previous, *next; /* of the holder */
};

struct object {
    uint32_t client, handle, class_id;
    uint32_t device; /* the nearest device, itself included; 0: none */
    struct object *parent, *previous, *next;
    struct object *first, *last; /* children; subdevices come before others */
    struct reference reference;  /* if it is in use, this is memory */
};

struct client {
    struct object object; /* the root of its objects; the handle is the client's */
    struct holder holder;
};

/* A part of a mapping on one device. It has a reference of its own, as in the driver. */
struct mapping {
    struct interval interval;
    struct reference reference;
};

struct range {
    struct interval interval;
};

struct space_gpu {
    uint32_t gpu;
    struct interval *mappings;
    struct space_gpu *next;
};

struct space {
    struct holder holder;
    struct interval *ranges; /* none overlaps another */
    struct space_gpu *gpus;
    unsigned gpu_count;
};

/* A place of a file; in use, the references are what it holds and what it is about to. */
struct place {
    uint32_t number;
    struct file *file;
    struct reference held, coming;
    struct place *previous, *next; /* of the file */
};

struct file {
    struct holder holder;
    struct place *places;
};

enum item {
    ITEM_OWNER,
    ITEM_USE,
    ITEM_ALLOCATION,
    ITEM_OBJECT,
    ITEM_CLIENT,
    ITEM_SPACE,
    ITEM_SPACE_GPU,
    ITEM_RANGE,
    ITEM_MAPPING,
    ITEM_FILE,
    ITEM_PLACE,
    ITEMS,
};

struct objects {
    struct objects_classes classes;
    unsigned limit, count; /* items */
    void *spare[ITEMS];    /* one of each that is free to be used, or NULL */
    uint64_t random;
    struct hash_seed seed;
    struct hash objects;                   /* by client and handle; clients by their own handle */
    struct hash spaces;                    /* by number */
    struct hash owners;                    /* by number */
    struct hash files;                     /* by number */
    struct hash places;                    /* by file and place */
    struct hash uses[HOLDER_KINDS];        /* by owner and holder */
    struct owner *first_owner;             /* all of them */
    struct owner *changed;                 /* those that objects_next_charge() has to look at */
    struct object *first_gone, *last_gone; /* for objects_next_gone(), by `next` */
    uint64_t total_bytes[VGPU_DEVICES_MAX], named_bytes[VGPU_DEVICES_MAX];
};

static inline uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/*
 * objects_owner.c: items, owners, holders, charges.
 */

/* A zeroed item. -ENOSPC, -ENOMEM. */
int item_new(struct objects *objects, enum item item, void *ret_pointer_to_pointer);
void item_free(struct objects *objects, enum item item, void *pointer); /* NULL is fine */
int item_reserve(struct objects *objects, enum item item);

/* The space or file of that number gets `owner` as a user; it is made if it is not in `holders`. */
int holder_get(struct objects *objects, struct hash *holders, enum holder_kind kind,
               uint32_t number, uint32_t owner);
/* Makes the owner a user of the holder, the newest one; 0 also if it is one already. All or
 * nothing. */
int holder_use(struct objects *objects, struct holder *holder, uint32_t owner);
/* The holder is about to be freed, and has no references any more. */
void holder_end(struct objects *objects, struct holder *holder);

/* A new reference of the holder to the allocation, the newest one of both. */
void reference_add(struct objects *objects, struct reference *reference, struct holder *holder,
                   struct allocation *allocation);
/* One more reference, for a part of what has the whole, and as old as that. */
void reference_split(struct objects *objects, struct reference *reference, struct reference *whole);
/* Drops it; with the last one the allocation is gone. */
void reference_drop(struct objects *objects, struct reference *reference);

/* The owner does not use the holder any more; others do. */
void holder_leave(struct objects *objects, struct use *use);

void space_end(struct objects *objects, struct space *space); /* objects_map.c */
void file_end(struct objects *objects, struct file *file);    /* objects_file.c */
/* objects_file.c: what a file holds in a place; NULL: nothing. */
struct allocation *held_in(const struct objects *objects, uint32_t file, uint32_t place);

#endif

/*
 * What this process holds, by the driver's handles and addresses: one table for each kind of key.
 *
 * Thread-safe; keeps errno. A forked child starts with empty tables.
 */
#ifndef VGPU_HOOK_MEMORY_RECORDS_H
#define VGPU_HOOK_MEMORY_RECORDS_H

#include "account/track.h"

/* Within a table, the driver tells keys apart. */
enum record_table {
    /* Admitted memory; `extra` is the context with which the driver frees it. */
    RECORDS_POINTERS, /* device memory, charged by the blocks that it touches */
    RECORDS_HOST,
    RECORDS_ARRAYS,
    RECORDS_EXTERNAL,
    RECORDS_MODULES, /* and libraries */
    RECORDS_OF_CONTEXTS,

    /* `extra` is a pointer of the table's user. */
    RECORDS_PHYSICAL = RECORDS_OF_CONTEXTS, /* handles of cuMemCreate */
    RECORDS_MAPPINGS,
    RECORDS_CONTEXTS,
    RECORDS_IPC,
    RECORDS_POOLS,
    RECORDS_GRAPHS,
    RECORD_TABLES
};

/* Replaces a record of the same key. False: no memory. */
bool record_put(enum record_table table, uint64_t key, const struct vgpu_track_entry *entry);

/* False: there is none. Taking removes it. */
bool record_get(enum record_table table, uint64_t key, struct vgpu_track_entry *ret_entry);
bool record_take(enum record_table table, uint64_t key, struct vgpu_track_entry *ret_entry);

/* track_sweep(). */
void record_sweep(enum record_table table, uint64_t first, uint64_t last,
                  bool (*visit)(uint64_t key, struct vgpu_track_entry *entry, void *arg),
                  void *arg);

#endif

/*
 * The instance that this process belongs to, by its environment (spec/config.def).
 *
 * VGPU_INSTANCE names the instance. Without it, HAMi's variables CUDA_DEVICE_MEMORY_LIMIT,
 * CUDA_DEVICE_SM_LIMIT and CUDA_DEVICE_MEMORY_SHARED_CACHE make an implicit instance, whose region
 * is in the cache file. Without any of them nothing is limited or counted.
 */
#ifndef VGPU_ACCOUNT_INSTANCE_H
#define VGPU_ACCOUNT_INSTANCE_H

#include "account/ledger.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The id of the process's group (region_group_new()), from VGPU_GROUP, which a nested `vgpu run`
 * sets. 0: none, or VGPU_INSTANCE is not set. A process that unsets VGPU_GROUP has the instance's
 * limits.
 */
uint64_t instance_group_id(void);

/* Whether the environment names an instance. Opens nothing. */
bool instance_configured(void);

/*
 * The limits that this process brings by its own numbers of devices: those of an implicit instance
 * whose devices CUDA_VISIBLE_DEVICES numbers. False: it brings none, or numbers them as the machine
 * does.
 */
bool instance_limits_by_number(struct vgpu_limits *ret_limits);

/* The folder of the instance that VGPU_INSTANCE names. -ENOENT: it names none; -EINVAL: the name is
 * not valid; -ENAMETOOLONG. */
int instance_folder(char *buffer, size_t buffer_bytes);

/*
 * The limits that HAMi's variables set; vdev i has those of the program's device i. -ENOENT: none
 * are set, or VGPU_INSTANCE is set and comes first; -EINVAL: one is not accepted, after a line on
 * stderr.
 */
int instance_configured_limits(struct vgpu_limits *ret_limits);

/*
 * Attaches this process. 1: *ret_ledger is its ledger, for the life of the process; 0: no instance
 * is configured; -errno: one is and cannot be attached, after one line on stderr: let no CUDA
 * start. May be tried again.
 */
int instance_attach(struct vgpu_ledger **ret_ledger);

/*
 * Whether the file of an instance in a cache file was removed with all its names, so that no other
 * process can join. To be asked now and then, after instance_attach(). The first time a line goes
 * to stderr.
 */
bool instance_lost(struct vgpu_region *region);

#endif

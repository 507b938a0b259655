/*
 * What HAMi's monitor reads of a cache file: the first 2008952 bytes, in the layout of HAMi-core's shared region,
 * version 1.2. We only write it (limits, devices, and what each process holds), so that the monitor's metrics go on
 * to work; what counts is the region behind it.
 */
#ifndef VGPU_CORE_HAMI_H
#define VGPU_CORE_HAMI_H

#include "core/ledger.h"

/* Keeps the header up to date from now on. The ledger's region must be in a cache file (INSTANCE_CACHE_OFFSET). */
void hami_mirror(struct vgpu_ledger *ledger);

#endif

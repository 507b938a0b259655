/*
 * The guard's own accounts: the quota as it was given at the start, and what is used of it. The
 * region is the user's file, so a hostile program can write it: it is told, and not believed. All
 * under notify->lock.
 */
#ifndef VGPU_GUARD_QUOTA_H
#define VGPU_GUARD_QUOTA_H

#include "guard/nvidia/nvidia.h"

uint64_t quota_bytes(const struct nvidia *nvidia, unsigned vdev); /* 0: none */
uint64_t quota_used(const struct nvidia *nvidia, unsigned vdev);
bool quota_leaves(const struct nvidia *nvidia, unsigned vdev, uint64_t bytes);
/* Counts that a call was refused for lack of so much, and says so. */
void quota_refuse(struct nvidia *nvidia, struct guard_process *process, unsigned vdev,
                  uint64_t bytes, const char *api);
/* Sets what the process has mapped as managed memory. `force`: even if it does not fit, else
 * -ENOMEM. */
int quota_set_managed(struct nvidia *nvidia, struct guard_process *process, uint64_t bytes,
                      bool force);

#endif

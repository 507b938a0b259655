/*
 * IPC handles of plain device memory: ipc.c.
 */
#ifndef VGPU_HOOK_IPC_H
#define VGPU_HOOK_IPC_H

#include "core/track.h"
#include "hook/hook.h"

/* Blocks of which this process has exported something are empty now: gives their charge back, or to
 * who has them. */
void ipc_left(struct vgpu_ledger *ledger, const struct granule_share *left);

/* A context is gone, and what it had opened. After the driver's call. */
void ipc_context_gone(CUcontext context);

void ipc_forked(void); /* in the child of a fork */

#endif

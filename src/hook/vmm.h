/*
 * Virtual memory management: vmm.c.
 */
#ifndef VGPU_HOOK_VMM_H
#define VGPU_HOOK_VMM_H

void vmm_forked(void); /* in the child of a fork */

#endif

/* Contexts: context.c. */
#ifndef VGPU_HOOK_MEMORY_CONTEXT_H
#define VGPU_HOOK_MEMORY_CONTEXT_H

void context_forked(void); /* in the child of a fork */

#endif

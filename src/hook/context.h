/* What the handlers of context.c share with others. */
#ifndef VGPU_HOOK_CONTEXT_H
#define VGPU_HOOK_CONTEXT_H

void context_forked(void); /* in the child of a fork */

#endif

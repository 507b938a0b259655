/* What the handlers of module.c share with others. */
#ifndef VGPU_HOOK_MODULE_H
#define VGPU_HOOK_MODULE_H

#include "hook/hook.h"

/* A context was destroyed and the driver unloaded its modules: gives back what they were charged
 * with. */
void module_context_gone(CUcontext context);

#endif

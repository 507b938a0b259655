/*
 * Memory of another API (Vulkan, OpenGL, NvSci), imported: nobody else of the instance is charged
 * for it.
 */
#include "hook/memory/admission.h"

ALLOCATE(import_external_memory, MEM_EXTERNAL, memory, desc != NULL ? desc->size : 0, desc)
FREE(destroy_external_memory, MEM_EXTERNAL, memory)

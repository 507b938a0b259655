/*
 * NVML for the supervisor: loaded from a place where only root can put a file, and before the
 * program runs. The loader's own search goes by LD_LIBRARY_PATH, which often names folders of the
 * user's; a library from there would run in the supervisor.
 */
#ifndef VGPU_GUARD_NVML_H
#define VGPU_GUARD_NVML_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path of the NVML to load: `given`, else the system's. -ENOENT: `given` cannot be read, or no
 * folder of the system has it; -EPERM: the system's can be replaced by others than root. *ret_why
 * then ends a sentence that begins with the path.
 */
int nvml_find(const char *given, char *ret_path, size_t bytes, const char **ret_why);

/* Whether a library that NVML loads by name can only come from root's folders: the loader looks in
 * those that LD_LIBRARY_PATH named when this process began. A missing folder counts as the one
 * above it. */
bool nvml_search_closed(void);

#endif

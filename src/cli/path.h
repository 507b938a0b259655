/* Joins paths. */
#ifndef VGPU_CLI_PATH_H
#define VGPU_CLI_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "<folder>/<name>". False: it does not fit, and *ret_path is "". */
bool path_join(char *ret_path, size_t size, const char *folder, const char *name);

#endif

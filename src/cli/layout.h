/* Finds the parts of vgpu relative to the command, in a build directory or installed. */
#ifndef VGPU_CLI_LAYOUT_H
#define VGPU_CLI_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The absolute path of the library to preload: $VGPU_LIBRARY, else libvgpu.so (libvgpu-trace.so)
 * beside the command or in ../lib.../vgpu. -ENOENT: it is missing; -EINVAL: its path has a space or
 * a colon, which the loader takes for a divider. On failure *ret_path is the faulty path, or "".
 */
int layout_library(bool trace, char *ret_path, size_t size);

/* The directory of the simulated driver. -ENOENT: it is missing; -EINVAL: its path has a colon or a
 * semicolon. */
int layout_sim(char *ret_path, size_t size);

#endif

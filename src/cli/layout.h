/* Where the parts of vgpu are, told from where the command itself is: in a build folder or
 * installed. */
#ifndef VGPU_CLI_LAYOUT_H
#define VGPU_CLI_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The library to preload: $VGPU_LIBRARY, else libvgpu.so (libvgpu-trace.so) beside the command or
 * in ../lib.../vgpu. Absolute. -ENOENT: not there; -EINVAL: its path has a space or a colon, at
 * which the loader would cut it. On failure *ret_path is the path that is at fault ("" where
 * nothing was found).
 */
int layout_library(bool trace, char *ret_path, size_t size);

/* The folder with the simulated driver. -ENOENT, -EINVAL (colon or semicolon in it) as above. */
int layout_sim(char *ret_path, size_t size);

#endif

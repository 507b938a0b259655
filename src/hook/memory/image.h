/* What a loadable GPU image tells before the driver loads it. */
#ifndef VGPU_HOOK_MEMORY_IMAGE_H
#define VGPU_HOOK_MEMORY_IMAGE_H

#include <stdint.h>

/*
 * The bytes of device memory that an image's sections need: of a cubin, or of the largest
 * uncompressed cubin in a fat binary. 0: it does not say (PTX, compressed). Reads headers only, as
 * far as each is valid.
 */
uint64_t image_device_bytes(const void *image);

/* The same for a file. 0: it cannot be read. */
uint64_t image_file_device_bytes(const char *path);

#endif

/* What is known of a loadable GPU image before the driver loads it. */
#ifndef VGPU_HOOK_IMAGE_H
#define VGPU_HOOK_IMAGE_H

#include <stdint.h>

/*
 * The bytes of device memory that an image's sections need: of a cubin, or of the largest
 * uncompressed cubin in a fat binary. 0 where it does not say (PTX, compressed). Reads only
 * headers, and no further than they are what they seem.
 */
uint64_t image_device_bytes(const void *image);

/* The same for a file; 0 where it cannot be read. */
uint64_t image_file_device_bytes(const char *path);

#endif

/* Decompresses what nvcc compresses in a fat binary. */
#ifndef SIM_UNPACK_H
#define SIM_UNPACK_H

#include <stdint.h>

enum sim_packing { PACKED_LZ4, PACKED_ZSTD };

/* The plain bytes; the caller frees them. NULL: they cannot be decompressed, or the library
 * (liblz4.so.1, libzstd.so.1) is missing. */
void *unpack(enum sim_packing packing, const void *from, uint64_t bytes, uint64_t plain_bytes);

#endif

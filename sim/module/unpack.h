/* Decompresses what nvcc compresses in a fat binary. */
#ifndef SIM_UNPACK_H
#define SIM_UNPACK_H

#include <stdint.h>

enum sim_packing { PACKED_LZ4, PACKED_ZSTD };

/* The plain bytes, for free(); NULL: they are not to be had, the library for them (liblz4.so.1,
 * libzstd.so.1) neither.
 */
void *unpack(enum sim_packing packing, const void *from, uint64_t bytes, uint64_t plain_bytes);

#endif

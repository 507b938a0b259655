/* Memsets: work for the device, charged by their size until they have been measured. */
#include "hook/work/work.h"

static inline uint64_t area(uint64_t width, uint64_t height, uint64_t element_bytes)
{
    return width * height * element_bytes;
}

#define MEMSET(handler, stream, waits, bytes, row_bytes)                                           \
    WORK(handler, work_begins(sym, waits, bytes), (bytes) == 0,                                    \
         work_of_bytes(sym, VGPU_WORK_MEMSET, stream, bytes, row_bytes))

#define FLAT(handler, element)                                                                     \
    MEMSET(memset_##handler##_v1, NULL, true, area(count, 1, element), 0)                          \
    MEMSET(memset_##handler, NULL, true, area(count, 1, element), 0)                               \
    MEMSET(memset_##handler##_async, stream, false, area(count, 1, element), 0)

#define STRIDED(handler, element)                                                                  \
    MEMSET(memset_##handler##_v1, NULL, true, area(width, height, element),                        \
           area(width, 1, element))                                                                \
    MEMSET(memset_##handler, NULL, true, area(width, height, element), area(width, 1, element))    \
    MEMSET(memset_##handler##_async, stream, false, area(width, height, element),                  \
           area(width, 1, element))

FLAT(d8, 1)
FLAT(d16, 2)
FLAT(d32, 4)
STRIDED(d2d8, 1)
STRIDED(d2d16, 2)
STRIDED(d2d32, 4)

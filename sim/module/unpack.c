#include "unpack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define MOST_BYTES (1ULL << 30)

/* Declared as in lz4.h and zstd.h, and loaded when needed: the build needs neither library. */
typedef int lz4_function(const char *from, char *to, int bytes, int room);
typedef size_t zstd_function(void *to, size_t room, const void *from, size_t bytes);

static lz4_function *lz4;
static zstd_function *zstd;

static void *symbol(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    return handle ? dlsym(handle, name) : NULL;
}

static void find_functions(void)
{
    *(void **)&lz4 = symbol("liblz4.so.1", "LZ4_decompress_safe");
    *(void **)&zstd = symbol("libzstd.so.1", "ZSTD_decompress");
}

void *unpack(enum sim_packing packing, const void *from, uint64_t bytes, uint64_t plain_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t done = 0;

    pthread_once(&once, find_functions);
    if (bytes > MOST_BYTES || plain_bytes > MOST_BYTES || !plain_bytes)
        return NULL;
    void *to = malloc((size_t)plain_bytes);
    if (to && packing == PACKED_ZSTD && zstd)
        done = zstd(to, (size_t)plain_bytes, from, (size_t)bytes);
    else if (to && packing == PACKED_LZ4 && lz4)
        done = (uint64_t)(int64_t)lz4(from, to, (int)bytes, (int)plain_bytes);
    if (done == plain_bytes) /* an error has another value */
        return to;
    free(to);
    return NULL;
}

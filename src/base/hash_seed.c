#include "base/hash.h"

#include "base/cleanup.h"

#include <sys/random.h>

int hash_seed(struct hash_seed *ret_seed)
{
    KEEP_ERRNO;
    struct hash_seed seed;
    size_t done = 0;

    while (done < sizeof(seed)) {
        ssize_t count = getrandom((char *)&seed + done, sizeof(seed) - done, 0);

        if (count < 0 && errno != EINTR)
            return -errno;
        if (count > 0)
            done += (size_t)count;
    }
    *ret_seed = seed;
    return 0;
}

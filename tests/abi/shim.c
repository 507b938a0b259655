/* A second shim over the driver, loaded after ours: what it finds with RTLD_NEXT must not go round
 * us. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>

int cuMemFree_v2(unsigned long long dptr);
void *shim_next(const char *name);

int cuMemFree_v2(unsigned long long dptr)
{
    (void)dptr;
    return 55;
}

void *shim_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

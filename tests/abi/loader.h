/* What the loader tests share: a check that says where it failed, and where an address comes
 * from. */
#ifndef VGPU_TESTS_LOADER_H
#define VGPU_TESTS_LOADER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #condition);                          \
            fprintf(stderr, ": " __VA_ARGS__);                                                     \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Whether an address is in an object whose path has `part` in it. */
static inline bool lies_in(void *address, const char *part)
{
    Dl_info info;

    return address && dladdr(address, &info) && info.dli_fname &&
           strstr(info.dli_fname, part) != NULL;
}

#define OURS(address) lies_in(address, "libvgpu")

#endif

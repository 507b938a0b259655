/* The driver's file appears while the program runs. Argument: the file, and the folder where it is
 * to appear. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096];
    void *driver;

    CHECK(argc == 3, "usage");
    snprintf(path, sizeof(path), "%s/libcuda.so.1", argv[2]);
    CHECK(!dlopen(path, RTLD_NOW), "too early");
    CHECK(!dlsym(RTLD_DEFAULT, "cuInit"), "too early");
    CHECK(symlink(argv[1], path) == 0, "%s", path);
    driver = dlopen(path, RTLD_NOW);
    CHECK(driver, "%s", dlerror());
    CHECK(OURS(dlsym(driver, "cuInit")), "after it appeared");
    unlink(path);
    return 0;
}

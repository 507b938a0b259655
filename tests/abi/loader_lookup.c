/*
 * Every way to ask for a driver function, over the toy driver.
 *
 *   loader_lookup off     the environment names nothing: every pointer is the driver's
 *   loader_lookup on      HOOK rows come from the library, PASS rows from the driver
 *   loader_lookup traced  HOOK and PASS rows come from the library
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader.h"

#include <errno.h>

#ifdef __x86_64__
#define LIBC_BASE "GLIBC_2.2.5"
#else
#define LIBC_BASE "GLIBC_2.17"
#endif

static const struct row {
    const char *name;
    bool hook;
} rows[] = {
#define HOOK(sym, handler) {#sym, true},
#define PASS(sym)          {#sym, false},
#include "driver.def"
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

typedef int get_proc_address_fn(const char *, void **, int, unsigned long long, int *);
typedef void *toy_address_fn(const char *);

static bool on, traced;

static void check_pointer(const struct row *row, void *got, void *driver, const char *how)
{
    bool wrapped = on && (row->hook || traced);

    CHECK(got != NULL, "%s by %s", row->name, how);
    if (wrapped)
        CHECK(OURS(got) && got != driver, "%s by %s", row->name, how);
    else
        CHECK(got == driver, "%s by %s", row->name, how);
}

static void check_without_driver(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const char *message;

        CHECK(dlsym(RTLD_DEFAULT, rows[i].name) == NULL, "%s without a driver", rows[i].name);
        message = dlerror();
        CHECK(message && strstr(message, rows[i].name), "%s", message ? message : "no dlerror()");
        CHECK(dlsym(RTLD_NEXT, rows[i].name) == NULL, "%s without a driver", rows[i].name);
        CHECK(dlerror() != NULL, "RTLD_NEXT");
    }
}

static void check_handle(void *driver, toy_address_fn *toy_address)
{
    void *versioned;

    for (size_t i = 0; i < ROWS; i++) {
        errno = 4711;
        check_pointer(&rows[i], dlsym(driver, rows[i].name), toy_address(rows[i].name), "dlsym");
        CHECK(errno == 4711, "errno after %s", rows[i].name);
        CHECK(dlerror() == NULL, "dlerror after %s", rows[i].name);
    }
    CHECK(dlsym(driver, "cuNoSuchThing") == NULL, " ");
    CHECK(strstr(dlerror(), "cuNoSuchThing"), " ");
    CHECK(!OURS(dlsym(driver, "cuToyNewInThisDriver")), " ");
    versioned = dlvsym(driver, "cuInit",
                       "NO_SUCH_VERSION"); /* the toy has no versions: glibc finds it or not */
    if (versioned)
        check_pointer(&(struct row){"cuInit", true}, versioned, toy_address("cuInit"), "dlvsym");
    dlerror();
}

static void check_get_proc_address(void *driver, toy_address_fn *toy_address)
{
    get_proc_address_fn *get = (get_proc_address_fn *)dlsym(driver, "cuGetProcAddress_v2");
    void *address = NULL;
    int status = -1;

    for (size_t i = 0; i < ROWS; i++) {
        CHECK(get(rows[i].name, &address, 12000, 0, &status) == 0 && status == 0, "%s",
              rows[i].name);
        check_pointer(&rows[i], address, toy_address(rows[i].name), "cuGetProcAddress_v2");
    }
    CHECK(get("cuToyNewInThisDriver", &address, 12000, 0, &status) == 0 && !OURS(address), " ");
    CHECK(((int (*)(void))address)() == 77, " ");
    CHECK(get("cuNoSuchThing", &address, 12000, 0, &status) == 500 && address == NULL &&
              status == 1,
          " ");
}

static void check_global(toy_address_fn *toy_address)
{
    void *self = dlopen(NULL, RTLD_LAZY);

    for (size_t i = 0; i < ROWS; i++) {
        check_pointer(&rows[i], dlsym(RTLD_DEFAULT, rows[i].name), toy_address(rows[i].name),
                      "RTLD_DEFAULT");
        check_pointer(&rows[i], dlsym(RTLD_NEXT, rows[i].name), toy_address(rows[i].name),
                      "RTLD_NEXT");
        check_pointer(&rows[i], dlsym(self, rows[i].name), toy_address(rows[i].name),
                      "dlopen(NULL)");
    }
}

static void check_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY);

    CHECK(libc && dlsym(libc, "open") && dlsym(libc, "open") == dlvsym(libc, "open", LIBC_BASE),
          " ");
    CHECK(dlvsym(libc, "open", "NO_SUCH_VERSION") == NULL, " ");
    CHECK(strstr(dlerror(), "NO_SUCH_VERSION"), " ");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    void *driver;
    toy_address_fn *toy_address;

    on = strcmp(mode, "off") != 0;
    traced = strcmp(mode, "traced") == 0;
    check_libc();
    check_without_driver();
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | (argc > 2 ? RTLD_DEEPBIND : 0));
    CHECK(driver, "%s", dlerror());
    toy_address = (toy_address_fn *)dlsym(driver, "toy_address");
    CHECK(toy_address && !OURS((void *)toy_address), " ");
    check_handle(driver, toy_address);
    check_get_proc_address(driver, toy_address);
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    check_global(toy_address);
    return 0;
}

/* The three ways in which a program finds the driver's functions. */
#include "driver.h"
#include "harness.h"

#include <dlfcn.h>

/* EACH(symbol) for the rows with a signature, by an include of driver.def. */
#define HOOK(symbol, handler) EACH(symbol)
#define CALL(symbol, ...)     EACH(symbol)
#define PASS(symbol)

struct driver cu;
void *driver_handle;
cuGetProcAddress_v2_fn *driver_get_proc_address;

#ifdef DRIVER_LINKED
/* Weak: an older driver may lack some, and then the program starts all the same. */
#define EACH(symbol) extern symbol##_fn symbol __attribute__((weak));
#include "driver.def"
#undef EACH

static void load_linked(void)
{
#define EACH(symbol) cu.symbol = symbol;
#include "driver.def"
#undef EACH
}
#else
static void load_linked(void)
{
    FAIL("this program is not linked with libcuda: TEST_REACH=link is for the other one");
}
#endif

static void load_dlsym(void)
{
#define EACH(symbol) cu.symbol = (symbol##_fn *)dlsym(driver_handle, #symbol);
#include "driver.def"
#undef EACH
}

static const struct version {
    const char *base;
    int since;
    bool per_thread;
    const char *symbol;
} versions[] = {
#define VERSION(base, since, per_thread, symbol) {#base, since, per_thread, #symbol},
#include "versions.def"
};

#define PER_THREAD_DEFAULT_STREAM 2

static void *proc_address(const char *symbol, int driver_version)
{
    const struct version *version = versions, *end = version + sizeof(versions) / sizeof(*version);
    CUdriverProcAddressQueryResult status = -1;
    void *address = NULL;
    CUresult result;

    while (version < end && strcmp(version->symbol, symbol))
        version++;
    if (version == end || version->since > driver_version)
        return NULL;
    result = driver_get_proc_address(version->base, &address, version->since,
                                     version->per_thread ? PER_THREAD_DEFAULT_STREAM : 0, &status);
    if (result != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS)
        return NULL;
    CHECK(address != NULL); /* found, so there is something to call */
    return address;
}

static void load_getproc(void)
{
    int version = 0;
    cuDriverGetVersion_fn *driver_version =
        (cuDriverGetVersion_fn *)dlsym(driver_handle, "cuDriverGetVersion");

    CHECK(driver_version != NULL);
    CU_OK(driver_version(&version));
    CHECK(driver_get_proc_address != NULL);
#define EACH(symbol) cu.symbol = (symbol##_fn *)proc_address(#symbol, version);
#include "driver.def"
#undef EACH
}

const char *driver_reach(void)
{
    const char *reach = getenv("TEST_REACH");
#ifdef DRIVER_LINKED
    return reach ? reach : "link";
#else
    return reach ? reach : "dlsym";
#endif
}

void driver_load(void)
{
    if (driver_handle)
        return;
    driver_handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver_handle)
        FAIL("libcuda.so.1: %s", dlerror());
    driver_get_proc_address = (cuGetProcAddress_v2_fn *)dlsym(driver_handle, "cuGetProcAddress_v2");
    if (!strcmp(driver_reach(), "link"))
        load_linked();
    else if (!strcmp(driver_reach(), "getproc"))
        load_getproc();
    else
        load_dlsym();
    CHECK(cu.cuInit != NULL);
}

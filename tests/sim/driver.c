/* The three ways in which a program gets at the driver. */
#include "driver.h"
#include "harness.h"

#include <dlfcn.h>

struct driver cu;
void *driver_handle;
CUresult (*driver_get_proc_address)(const char *name, void **ret_address, int version,
                                    uint64_t flags, CUdriverProcAddressQueryResult *ret_status);

#ifdef DRIVER_LINKED
/* Weak: an older driver may lack some, and then the program starts all the same. */
#define F(symbol, base, version, params) extern CUresult symbol params __attribute__((weak));
DRIVER_CALLS(F)
#undef F

static void load_linked(void)
{
#define F(symbol, base, version, params) cu.symbol = symbol;
    DRIVER_CALLS(F)
#undef F
}
#else
static void load_linked(void)
{
    FAIL("this program is not linked with libcuda: TEST_REACH=link is for the other one");
}
#endif

static void load_dlsym(void)
{
#define F(symbol, base, version, params)                                                           \
    cu.symbol = (CUresult(*) params)dlsym(driver_handle, #symbol);
    DRIVER_CALLS(F)
#undef F
}

#define PER_THREAD_DEFAULT_STREAM 2

static void *proc_address(const char *symbol, const char *base, int version, int driver_version)
{
    size_t length = strlen(symbol);
    bool per_thread = length > 5 && !strcmp(symbol + length - 5, "_ptsz");
    void *address = NULL;
    CUdriverProcAddressQueryResult status = -1;
    if (version > driver_version)
        return NULL;
    CUresult result = driver_get_proc_address(base, &address, version,
                                              per_thread ? PER_THREAD_DEFAULT_STREAM : 0, &status);
    if (result != CUDA_SUCCESS || status != 0)
        return NULL;
    CHECK(address != NULL); /* found, so there is something to call */
    return address;
}

static void load_getproc(void)
{
    int version = 0;
    CUresult (*driver_version)(int *) =
        (CUresult(*)(int *))dlsym(driver_handle, "cuDriverGetVersion");
    CHECK(driver_version != NULL);
    CU_OK(driver_version(&version));
    CHECK(driver_get_proc_address != NULL);
#define F(symbol, base, since, params)                                                             \
    cu.symbol = (CUresult(*) params)proc_address(#symbol, #base, since, version);
    DRIVER_CALLS(F)
#undef F
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
    driver_get_proc_address = (CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(
        driver_handle, "cuGetProcAddress_v2");
    if (!strcmp(driver_reach(), "link"))
        load_linked();
    else if (!strcmp(driver_reach(), "getproc"))
        load_getproc();
    else
        load_dlsym();
    CHECK(cu.cuInit != NULL);
}

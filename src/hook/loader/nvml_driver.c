#include "hook/loader/nvml_driver.h"

#include "base/cleanup.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/loader/elf.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY       "libnvidia-ml.so.1"
#define PROCESSES_MAX 4096 /* on one device; a driver that lists more is not believed */

typedef nvmlReturn_t list_fn(nvmlDevice_t device, unsigned *count, void *infos);

/* Written once, by nvml_driver_load(), before `loaded` is set. */
static struct {
    nvmlReturn_t (*init)(void);
    nvmlReturn_t (*count)(unsigned *count);
    nvmlReturn_t (*by_index)(unsigned index, nvmlDevice_t *device);
    nvmlReturn_t (*by_uuid)(const char *uuid, nvmlDevice_t *device);
    nvmlReturn_t (*uuid)(nvmlDevice_t device, char *uuid, unsigned length);
    nvmlReturn_t (*parent)(nvmlDevice_t mig_device, nvmlDevice_t *device);
    nvmlReturn_t (*gpu_instance)(nvmlDevice_t device, unsigned *id);
    nvmlReturn_t (*compute_instance)(nvmlDevice_t device, unsigned *id);
    nvmlReturn_t (*memory)(nvmlDevice_t device, nvmlMemory_t *memory);
    nvmlReturn_t (*memory_v2)(nvmlDevice_t device, nvmlMemory_v2_t *memory);
    list_fn *compute;
    list_fn *mps;
    bool lists_v1; /* the two above fill nvmlProcessInfo_v1_t */
} nvml;

static struct vgpu_mutex load_lock = VGPU_MUTEX_INIT;
static struct vgpu_mutex open_lock = VGPU_MUTEX_INIT;
static atomic_bool loaded, opened;

static void forget_locks(void *arg)
{
    (void)arg;
    mutex_init(&load_lock);
    mutex_init(&open_lock);
}

static struct fork_watch watch = {.child = forget_locks};

/* Read from the library, or those that it needs, so that no hook can come between. */
static void *lookup(const struct elf_scope *library, const char *newest, const char *older)
{
    void *function = elf_scope_symbol(library, newest);

    return function || !older ? function : elf_scope_symbol(library, older);
}

/* The _v2 lists before the _v3: in a few drivers of branch 535 the latter had a longer
 * structure. */
static void lookup_lists(const struct elf_scope *library)
{
    nvml.compute = lookup(library, "nvmlDeviceGetComputeRunningProcesses_v2",
                          "nvmlDeviceGetComputeRunningProcesses_v3");
    nvml.mps = lookup(library, "nvmlDeviceGetMPSComputeRunningProcesses_v2",
                      "nvmlDeviceGetMPSComputeRunningProcesses_v3");
    nvml.lists_v1 = !nvml.compute;
    if (nvml.lists_v1) {
        nvml.compute = lookup(library, "nvmlDeviceGetComputeRunningProcesses", NULL);
        nvml.mps = lookup(library, "nvmlDeviceGetMPSComputeRunningProcesses", NULL);
    }
}

static int lookup_all(const struct elf_scope *library)
{
    nvml.init = lookup(library, "nvmlInit_v2", "nvmlInit");
    nvml.count = lookup(library, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
    nvml.by_index = lookup(library, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
    nvml.by_uuid = lookup(library, "nvmlDeviceGetHandleByUUID", NULL);
    nvml.uuid = lookup(library, "nvmlDeviceGetUUID", NULL);
    nvml.parent = lookup(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", NULL);
    nvml.gpu_instance = lookup(library, "nvmlDeviceGetGpuInstanceId", NULL);
    nvml.compute_instance = lookup(library, "nvmlDeviceGetComputeInstanceId", NULL);
    nvml.memory = lookup(library, "nvmlDeviceGetMemoryInfo", NULL);
    nvml.memory_v2 = lookup(library, "nvmlDeviceGetMemoryInfo_v2", NULL);
    lookup_lists(library);
    if (!nvml.init || !nvml.count || !nvml.by_index || !nvml.by_uuid || !nvml.uuid)
        return -ENOSYS;
    return 0;
}

int nvml_driver_load(void)
{
    KEEP_ERRNO;
    struct elf_scope library;

    if (atomic_load_explicit(&loaded, memory_order_acquire))
        return 0;
    /* Not under a lock: the dynamic linker has its own, which the caller may hold. A second load is
     * harmless. */
    if (!dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL) || !elf_find_scope(LIBRARY, &library))
        return -ENOENT;
    fork_check();
    MUTEX_SCOPE(&load_lock);
    if (atomic_load_explicit(&loaded, memory_order_relaxed))
        return 0;
    if (lookup_all(&library) < 0)
        return -ENOSYS;
    fork_watch_add(&watch);
    atomic_store_explicit(&loaded, true, memory_order_release);
    return 0;
}

int nvml_driver_open(void)
{
    int rc = nvml_driver_load();

    if (rc < 0 || nvml_driver_is_open())
        return rc;
    MUTEX_SCOPE(&open_lock); /* one reference for the process; NVML calls nothing back */
    if (atomic_load_explicit(&opened, memory_order_relaxed))
        return 0;
    if (nvml.init() != NVML_SUCCESS)
        return -ENODEV;
    atomic_store_explicit(&opened, true, memory_order_release);
    return 0;
}

bool nvml_driver_is_open(void)
{
    return atomic_load_explicit(&opened, memory_order_acquire);
}

int nvml_driver_handle(const char *uuid, nvmlDevice_t *ret_device)
{
    nvmlDevice_t device;

    if (nvml.by_uuid(uuid, &device) != NVML_SUCCESS)
        return -ENODEV;
    *ret_device = device;
    return 0;
}

int nvml_driver_uuid(nvmlDevice_t device, char ret_uuid[VGPU_UUID_LEN])
{
    char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";

    if (nvml.uuid(device, text, sizeof(text)) != NVML_SUCCESS ||
        strnlen(text, sizeof(text)) >= VGPU_UUID_LEN)
        return -ENODEV;
    memset(ret_uuid, 0, VGPU_UUID_LEN);
    memcpy(ret_uuid, text, strlen(text));
    return 0;
}

int nvml_driver_parent(nvmlDevice_t device, nvmlDevice_t *ret_parent)
{
    nvmlDevice_t parent;

    if (!nvml.parent || nvml.parent(device, &parent) != NVML_SUCCESS || parent == device)
        return -ENODEV;
    *ret_parent = parent;
    return 0;
}

void nvml_driver_mig_ids(nvmlDevice_t device, unsigned *ret_gpu_instance,
                         unsigned *ret_compute_instance)
{
    nvmlDevice_t parent;
    unsigned id;

    *ret_gpu_instance = *ret_compute_instance = NVML_INSTANCE_ID_NONE;
    if (nvml_driver_parent(device, &parent) < 0)
        return;
    if (nvml.gpu_instance && nvml.gpu_instance(device, &id) == NVML_SUCCESS)
        *ret_gpu_instance = id;
    if (nvml.compute_instance && nvml.compute_instance(device, &id) == NVML_SUCCESS)
        *ret_compute_instance = id;
}

/* One list, in memory that the caller frees. */
static int list_once(list_fn *list, nvmlDevice_t device, unsigned room, void **ret_infos,
                     unsigned *ret_count)
{
    size_t size = nvml.lists_v1 ? sizeof(nvmlProcessInfo_v1_t) : sizeof(nvmlProcessInfo_v2_t);
    CLEANUP_FREE void *infos = calloc(room, size);
    nvmlReturn_t result;

    if (!infos)
        return -ENOMEM;
    *ret_count = room;
    result = list(device, ret_count, infos);
    if (result == NVML_ERROR_INSUFFICIENT_SIZE)
        return -EAGAIN;
    if (result != NVML_SUCCESS)
        return -EIO;
    *ret_infos = infos;
    infos = NULL;
    return 0;
}

static int list_all(list_fn *list, nvmlDevice_t device, struct nvml_process *ret_processes,
                    unsigned max)
{
    CLEANUP_FREE void *infos = NULL;
    unsigned count = 0;
    int rc = -EAGAIN;

    for (unsigned room = 64; rc == -EAGAIN && room <= PROCESSES_MAX; room *= 4)
        rc = list_once(list, device, room, &infos, &count);
    if (rc < 0)
        return -EIO;
    for (unsigned i = 0; i < count && i < max; i++) {
        const nvmlProcessInfo_v1_t *v1 = infos;
        const nvmlProcessInfo_v2_t *v2 = infos;

        ret_processes[i].pid = nvml.lists_v1 ? v1[i].pid : v2[i].pid;
        ret_processes[i].bytes = nvml.lists_v1 ? v1[i].usedGpuMemory : v2[i].usedGpuMemory;
    }
    return (int)count;
}

int nvml_driver_processes(nvmlDevice_t device, struct nvml_process *ret_processes, unsigned max)
{
    int count = nvml.compute ? list_all(nvml.compute, device, ret_processes, max) : -EIO;
    int more;

    if (count < 0 || (unsigned)count >= max || !nvml.mps)
        return count;
    more = list_all(nvml.mps, device, ret_processes + count, max - (unsigned)count);
    return more < 0 ? count : count + more;
}

uint64_t nvml_driver_physical_bytes(nvmlDevice_t device)
{
    nvmlMemory_v2_t v2 = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2)};
    nvmlMemory_t v1;

    if (nvml.memory_v2 && nvml.memory_v2(device, &v2) == NVML_SUCCESS && v2.total > v2.reserved)
        return v2.total - v2.reserved;
    if (nvml.memory && nvml.memory(device, &v1) == NVML_SUCCESS)
        return v1.total;
    return 0;
}

int nvml_driver_devices(struct vdev_device *ret_devices, unsigned max)
{
    unsigned count = 0, found = 0;

    if (nvml.count(&count) != NVML_SUCCESS)
        return -ENODEV;
    for (unsigned i = 0; i < count && found < max; i++) {
        nvmlDevice_t device;

        if (nvml.by_index(i, &device) != NVML_SUCCESS ||
            nvml_driver_uuid(device, ret_devices[found].uuid) < 0)
            continue;
        ret_devices[found++].physical_bytes = nvml_driver_physical_bytes(device);
    }
    return (int)found;
}

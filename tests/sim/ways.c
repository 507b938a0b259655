/* The ways: see ways.h. */
#include "ways.h"

#include <sys/mman.h>
#include <unistd.h>

#define STEP (48 * MIB)

/* Sizes of module images are told by their ELF header; anything else is text that ends with a
 * NUL. */
#define MODULE_BYTES (8 * MIB)
static char *module_image;

static void make_module_image(void)
{
    module_image = malloc(MODULE_BYTES);
    CHECK(module_image != NULL);
    memset(module_image, ' ', MODULE_BYTES);
    memcpy(module_image, ".version 8.0", 12);
    module_image[MODULE_BYTES - 1] = '\0';
}

static CUstream stream;
static CUmemoryPool pool;

void ways_init(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CU_OK(cu.cuCtxGetDevice(&props.location.id));
    stream = new_stream();
    make_module_image();
    if (cu.cuMemPoolCreate)
        CU_OK(cu.cuMemPoolCreate(&pool, &props));
}

void ways_done(void)
{
    if (pool)
        CU_OK(cu.cuMemPoolDestroy(pool));
    pool = NULL;
    CU_OK(cu.cuStreamDestroy_v2(stream));
    stream = NULL;
    free(module_image);
    module_image = NULL;
}

/* Calls that put one value out: it must stay the canary where the call fails. */
#define TAKE(held, field, type, call)                                                              \
    type out_ = (type)CANARY;                                                                      \
    CUresult took_ = (call);                                                                       \
    if (took_ != CUDA_SUCCESS) {                                                                   \
        CHECK(out_ == (type)CANARY);                                                               \
        return took_;                                                                              \
    }                                                                                              \
    (held)->field = out_

static CUresult plain_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAlloc_v2(&out_, STEP));
    return CUDA_SUCCESS;
}

static void plain_drop(struct held *h)
{
    CU_OK(cu.cuMemFree_v2(h->address));
}

static CUresult small_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAlloc_v2(&out_, 700001));
    return CUDA_SUCCESS;
}

static CUresult odd_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAlloc_v2(&out_, 9 * MIB + 1));
    return CUDA_SUCCESS;
}

static CUresult pitch_take(struct held *h)
{
    size_t pitch = CANARY;
    CUdeviceptr address = CANARY;
    CUresult result = cu.cuMemAllocPitch_v2(&address, &pitch, 1000003, 40, 4);
    if (result != CUDA_SUCCESS) {
        CHECK(pitch == CANARY && address == CANARY);
        return result;
    }
    CHECK_U(pitch, >=, 1000003);
    h->address = address;
    return CUDA_SUCCESS;
}

static CUresult managed_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAllocManaged(&out_, STEP, CU_MEM_ATTACH_GLOBAL));
    return CUDA_SUCCESS;
}

static CUresult async_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAllocAsync(&out_, STEP, stream));
    return CUDA_SUCCESS;
}

static void async_drop(struct held *h)
{
    CU_OK(cu.cuMemFreeAsync(h->address, stream));
}

/* An asynchronous allocation given back by the synchronous call. */
static void async_drop_plain(struct held *h)
{
    CU_OK(cu.cuMemFree_v2(h->address));
}

static void synchronise(void)
{
    CU_OK(cu.cuStreamSynchronize(stream));
}

static CUresult pool_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAllocFromPoolAsync(&out_, STEP, pool, stream));
    return CUDA_SUCCESS;
}

static void pool_trim(void)
{
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuMemPoolTrimTo(pool, 0));
}

static CUresult small_async_take(struct held *h)
{
    TAKE(h, address, CUdeviceptr, cu.cuMemAllocAsync(&out_, 3 * MIB + 5, stream));
    return CUDA_SUCCESS;
}

static bool has_pools(void)
{
    return cu.cuMemAllocAsync && cu.cuMemAllocFromPoolAsync;
}

static CUresult array_take(struct held *h)
{
    CUDA_ARRAY_DESCRIPTOR desc = {4096, 3000, CU_AD_FORMAT_FLOAT, 1};
    TAKE(h, handle, CUarray, cu.cuArrayCreate_v2(&out_, &desc));
    return CUDA_SUCCESS;
}

static CUresult small_array_take(struct held *h)
{
    CUDA_ARRAY_DESCRIPTOR desc = {333, 777, CU_AD_FORMAT_FLOAT, 2};
    TAKE(h, handle, CUarray, cu.cuArrayCreate_v2(&out_, &desc));
    return CUDA_SUCCESS;
}

static CUresult array3d_take(struct held *h)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {512, 256, 100, CU_AD_FORMAT_FLOAT, 1, 0};
    TAKE(h, handle, CUarray, cu.cuArray3DCreate_v2(&out_, &desc));
    return CUDA_SUCCESS;
}

static void array_drop(struct held *h)
{
    CU_OK(cu.cuArrayDestroy(h->handle));
}

static CUresult mipmap_take(struct held *h)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {1024, 1024, 0, CU_AD_FORMAT_FLOAT, 4, 0};
    TAKE(h, handle, CUmipmappedArray, cu.cuMipmappedArrayCreate(&out_, &desc, 6));
    return CUDA_SUCCESS;
}

static void mipmap_drop(struct held *h)
{
    CU_OK(cu.cuMipmappedArrayDestroy(h->handle));
}

static CUresult vmm_take(struct held *h)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CU_OK(cu.cuCtxGetDevice(&prop.location.id));
    TAKE(h, address, CUmemGenericAllocationHandle, cu.cuMemCreate(&out_, STEP, &prop, 0));
    return CUDA_SUCCESS;
}

static void vmm_drop(struct held *h)
{
    CU_OK(cu.cuMemRelease(h->address));
}

/* Created, mapped and released at once, as PyTorch's expandable segments do it: the mapping holds
 * the memory. */
static CUresult vmm_map_take(struct held *h)
{
    struct held created = {0};
    CUresult result = vmm_take(&created);
    if (result != CUDA_SUCCESS)
        return result;
    CUdeviceptr address = 0;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU_OK(cu.cuCtxGetDevice(&access.location.id));
    CU_OK(cu.cuMemAddressReserve(&address, STEP, 0, 0, 0));
    CU_OK(cu.cuMemMap(address, STEP, 0, created.address, 0));
    CU_OK(cu.cuMemSetAccess(address, STEP, &access, 1));
    CU_OK(cu.cuMemRelease(created.address));
    h->address = address;
    return CUDA_SUCCESS;
}

static void vmm_map_drop(struct held *h)
{
    CU_OK(cu.cuMemUnmap(h->address, STEP));
    CU_OK(cu.cuMemAddressFree(h->address, STEP));
}

static CUresult graph_take(struct held *h)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = STEP};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL;
    CU_OK(cu.cuCtxGetDevice(&params.poolProps.location.id));
    CU_OK(cu.cuGraphCreate(&graph, 0));
    CU_OK(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUresult result = cu.cuGraphLaunch(exec, stream);
    if (result != CUDA_SUCCESS) {
        CU_OK(cu.cuGraphExecDestroy(exec));
        CU_OK(cu.cuGraphDestroy(graph));
        return result;
    }
    *h = (struct held){.address = params.dptr, .handle = graph, .handle2 = exec};
    return CUDA_SUCCESS;
}

static void graph_drop(struct held *h)
{
    CU_OK(cu.cuMemFreeAsync(h->address, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuGraphExecDestroy(h->handle2));
    CU_OK(cu.cuGraphDestroy(h->handle));
}

static void graph_trim(void)
{
    CUdevice device = 0;
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuCtxGetDevice(&device));
    CU_OK(cu.cuDeviceGraphMemTrim(device));
}

static bool has_graph_memory(void)
{
    return cu.cuGraphAddMemAllocNode && cu.cuDeviceGraphMemTrim;
}

static CUresult external_take(struct held *h)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = STEP};
    desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
    CHECK(desc.handle.fd >= 0 && ftruncate(desc.handle.fd, STEP) == 0);
    CUexternalMemory memory = (CUexternalMemory)(uintptr_t)CANARY;
    CUresult result = cu.cuImportExternalMemory(&memory, &desc);
    if (result != CUDA_SUCCESS) {
        close(desc.handle.fd); /* a success would have made it the driver's */
        CHECK(memory == (CUexternalMemory)(uintptr_t)CANARY);
        return result;
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = STEP};
    CUdeviceptr address = 0;
    CU_OK(cu.cuExternalMemoryGetMappedBuffer(&address, memory, &buffer));
    *h = (struct held){.address = address, .handle = memory};
    return CUDA_SUCCESS;
}

static void external_drop(struct held *h)
{
    CU_OK(cu.cuMemFree_v2(h->address));
    CU_OK(cu.cuDestroyExternalMemory(h->handle));
}

static CUresult context_take(struct held *h)
{
    CUdevice device = 0;
    CUcontext before = NULL;
    CU_OK(cu.cuCtxGetDevice(&device));
    CU_OK(cu.cuCtxGetCurrent(&before));
    TAKE(h, handle, CUcontext, cu.cuCtxCreate_v2(&out_, 0, device));
    CU_OK(cu.cuCtxSetCurrent(before));
    return CUDA_SUCCESS;
}

static void context_drop(struct held *h)
{
    CU_OK(cu.cuCtxDestroy_v2(h->handle));
}

static bool has_green(void)
{
    CUdevice device = 0;
    CUdevResource resource;
    return cu.cuGreenCtxCreate && cu.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
           cu.cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS;
}

static CUresult green_take(struct held *h)
{
    CUdevice device = 0;
    CUdevResource resource = {0};
    CUdevResourceDesc desc = NULL;
    CU_OK(cu.cuCtxGetDevice(&device));
    CU_OK(cu.cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
    CU_OK(cu.cuDevResourceGenerateDesc(&desc, &resource, 1));
    TAKE(h, handle, CUgreenCtx,
         cu.cuGreenCtxCreate(&out_, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return CUDA_SUCCESS;
}

static void green_drop(struct held *h)
{
    CU_OK(cu.cuGreenCtxDestroy(h->handle));
}

static CUresult module_take(struct held *h)
{
    TAKE(h, handle, CUmodule, cu.cuModuleLoadData(&out_, module_image));
    return CUDA_SUCCESS;
}

static void module_drop(struct held *h)
{
    CU_OK(cu.cuModuleUnload(h->handle));
}

static CUresult library_take(struct held *h)
{
    TAKE(h, handle, CUlibrary,
         cu.cuLibraryLoadData(&out_, module_image, NULL, NULL, 0, NULL, NULL, 0));
    return CUDA_SUCCESS;
}

static void library_drop(struct held *h)
{
    CU_OK(cu.cuLibraryUnload(h->handle));
}

static bool has_libraries(void)
{
    return cu.cuLibraryLoadData != NULL;
}

/* Limits: each take raises the limit by one step, each drop lowers it by one. */
static CUresult limit_step(CUlimit limit, int64_t step)
{
    size_t value = 0;
    CU_OK(cu.cuCtxGetLimit(&value, limit));
    CUresult result = cu.cuCtxSetLimit(limit, (size_t)((int64_t)value + step));
    size_t after = 0;
    CU_OK(cu.cuCtxGetLimit(&after, limit));
    CHECK_U(after, ==, result == CUDA_SUCCESS ? (size_t)((int64_t)value + step) : value);
    return result;
}

static CUresult stack_take(struct held *h)
{
    (void)h;
    return limit_step(CU_LIMIT_STACK_SIZE, 256); /* 132 SMs x 2048 threads x 256 bytes: 66 MiB */
}

static void stack_drop(struct held *h)
{
    (void)h;
    CU_OK(limit_step(CU_LIMIT_STACK_SIZE, -256));
}

static CUresult host_alloc_take(struct held *h)
{
    TAKE(h, host, void *, cu.cuMemHostAlloc(&out_, STEP, 0));
    return CUDA_SUCCESS;
}

static CUresult alloc_host_take(struct held *h)
{
    TAKE(h, host, void *, cu.cuMemAllocHost_v2(&out_, STEP));
    return CUDA_SUCCESS;
}

static void host_alloc_drop(struct held *h)
{
    CU_OK(cu.cuMemFreeHost(h->host));
}

static CUresult host_register_take(struct held *h)
{
    void *memory = mmap(NULL, STEP, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    CUresult result = cu.cuMemHostRegister_v2(memory, STEP, 0);
    if (result != CUDA_SUCCESS) {
        munmap(memory, STEP);
        return result;
    }
    h->host = memory;
    return CUDA_SUCCESS;
}

static void host_register_drop(struct held *h)
{
    CU_OK(cu.cuMemHostUnregister(h->host));
    munmap(h->host, STEP);
}

const struct way ways[] = {
    {.name = "plain", .take = plain_take, .drop = plain_drop, .step_bytes = STEP},
    {.name = "small", .take = small_take, .drop = plain_drop, .step_bytes = BLOCK_BYTES},
    {.name = "odd", .take = odd_take, .drop = plain_drop, .step_bytes = 10 * MIB},
    {.name = "pitch", .take = pitch_take, .drop = plain_drop, .step_bytes = 40 * MIB},
    {.name = "managed", .take = managed_take, .drop = plain_drop, .step_bytes = STEP},
    {.name = "async",
     .take = async_take,
     .drop = async_drop,
     .settle = synchronise,
     .available = has_pools,
     .step_bytes = 2 * POOL_BLOCK_BYTES},
    {.name = "async_small",
     .take = small_async_take,
     .drop = async_drop,
     .settle = synchronise,
     .available = has_pools,
     .step_bytes = POOL_BLOCK_BYTES},
    {.name = "async_plain_free",
     .take = async_take,
     .drop = async_drop_plain,
     .settle = synchronise,
     .available = has_pools,
     .step_bytes = 2 * POOL_BLOCK_BYTES},
    {.name = "pool",
     .take = pool_take,
     .drop = async_drop,
     .settle = pool_trim,
     .available = has_pools,
     .step_bytes = 2 * POOL_BLOCK_BYTES},
    {.name = "array", .take = array_take, .drop = array_drop, .step_bytes = STEP},
    {.name = "array_small", .take = small_array_take, .drop = array_drop, .step_bytes = 4 * MIB},
    {.name = "array3d", .take = array3d_take, .drop = array_drop, .step_bytes = 64 * MIB},
    {.name = "mipmap", .take = mipmap_take, .drop = mipmap_drop, .step_bytes = 24 * MIB},
    {.name = "vmm", .take = vmm_take, .drop = vmm_drop, .step_bytes = STEP},
    {.name = "vmm_mapped", .take = vmm_map_take, .drop = vmm_map_drop, .step_bytes = STEP},
    {.name = "graph",
     .take = graph_take,
     .drop = graph_drop,
     .settle = graph_trim,
     .available = has_graph_memory,
     .step_bytes = 2 * POOL_BLOCK_BYTES},
    {.name = "external", .take = external_take, .drop = external_drop, .step_bytes = STEP},
    {.name = "context",
     .take = context_take,
     .drop = context_drop,
     .step_bytes = 600 * MIB,
     .alone = true},
    {.name = "green",
     .take = green_take,
     .drop = green_drop,
     .available = has_green,
     .step_bytes = 8 * MIB},
    {.name = "module", .take = module_take, .drop = module_drop, .step_bytes = 16 * MIB},
    {.name = "library",
     .take = library_take,
     .drop = library_drop,
     .available = has_libraries,
     .step_bytes = 16 * MIB},
    {.name = "stack_limit",
     .take = stack_take,
     .drop = stack_drop,
     .step_bytes = 66 * MIB,
     .alone = true},
    {.name = "host_alloc",
     .take = host_alloc_take,
     .drop = host_alloc_drop,
     .step_bytes = STEP,
     .counts = WAY_HOST},
    {.name = "alloc_host",
     .take = alloc_host_take,
     .drop = host_alloc_drop,
     .step_bytes = STEP,
     .counts = WAY_HOST},
    {.name = "host_register",
     .take = host_register_take,
     .drop = host_register_drop,
     .step_bytes = STEP,
     .counts = WAY_HOST},
};
const unsigned way_count = sizeof ways / sizeof *ways;

const struct way *way_find(const char *name)
{
    for (unsigned i = 0; i < way_count; i++)
        if (!strcmp(ways[i].name, name))
            return &ways[i];
    FAIL("no way is called %s", name);
}

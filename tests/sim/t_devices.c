/* Several devices: numbering, selection and limits of each. */
#include "harness.h"
#include "nvml.h"

static void uuid_text(CUdevice device, char *ret_text)
{
    CUuuid uuid;
    const unsigned char *b = (const unsigned char *)uuid.bytes;
    CU_OK(cu.cuDeviceGetUuid_v2(&uuid, device));
    sprintf(ret_text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
            b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
            b[14], b[15]);
}

static int nvml_uuid(unsigned index, char *ret_text)
{
    nvmlDevice_t device = NULL;
    CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(index, &device) == NVML_SUCCESS);
    return nvml.nvmlDeviceGetUUID(device, ret_text, 96);
}

/* The UUIDs of the card(s), by NVML and by physical number; run without the library. */
TEST(list_uuids)
{
    unsigned count = 0;
    nvml_load();
    CHECK(nvml.nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
    for (unsigned i = 0; i < count; i++) {
        char text[96];
        CHECK(nvml_uuid(i, text) == NVML_SUCCESS);
        puts(text);
    }
    return 0;
}

static unsigned parse_list(const char *text, unsigned *ret_numbers)
{
    unsigned count = 0;
    while (text && *text && *text != '-') {
        ret_numbers[count++] = (unsigned)strtoul(text, (char **)(uintptr_t)&text, 10);
        if (*text == ',')
            text++;
    }
    return count;
}

/* The physical number behind each UUID, from TEST_UUIDS. */
static unsigned physical(const char *uuid)
{
    const char *all = getenv("TEST_UUIDS"), *at = all ? strstr(all, uuid) : NULL;
    unsigned number = 0;
    if (!at)
        FAIL("%s is no device of this machine (%s)", uuid, all ? all : "TEST_UUIDS is not set");
    for (const char *c = all; c < at; c++)
        number += *c == ',';
    return number;
}

/*
 * devices_are CUDA [NVML]: lists of physical numbers in the order expected. "-" is none, and then
 * cuInit or cuDeviceGetCount say so. Memory allocated on each is held by that card and charged to
 * the same one.
 */
TEST(devices_are)
{
    unsigned want[16] = {0}, want_nvml[16] = {0};
    int count = -1;
    char uuid[96];
    CHECK(argc > 0);
    unsigned cuda_count = parse_list(argv[0], want);
    driver_load();
    CUresult result = cu.cuInit(0);
    if (cuda_count == 0) {
        if (result == CUDA_SUCCESS) {
            result = cu.cuDeviceGetCount(&count);
            CHECK(result != CUDA_SUCCESS || count == 0);
        }
        return 0;
    }
    CU_OK(result);
    CU_OK(cu.cuDeviceGetCount(&count));
    CHECK_U(count, ==, cuda_count);
    CUdevice device = 77;
    CHECK(cu.cuDeviceGet(&device, count) == CUDA_ERROR_INVALID_DEVICE && device == 77);
    for (int i = 0; i < count; i++) {
        char pci[32];
        CUdevice again = -1;
        CUdeviceptr address = 0;
        CU_OK(cu.cuDeviceGet(&device, i));
        uuid_text(device, uuid);
        CHECK_U(physical(uuid), ==, want[i]);
        CU_OK(cu.cuDeviceGetPCIBusId(pci, sizeof pci, device));
        CU_OK(cu.cuDeviceGetByPCIBusId(&again, pci));
        CHECK_U(again, ==, device);
        open_device(i);
        uint64_t used = truth_used((int)want[i]);
        CU_OK(cu.cuMemAlloc_v2(&address, 64 * MIB));
        CHECK_U(truth_used((int)want[i]), ==, used + 64 * MIB);
    }
    check_agreement();
    for (int i = 0; i < count; i++)
        close_device(i);
    check_agreement();
    if (argc < 2)
        return 0;
    unsigned nvml_wanted = parse_list(argv[1], want_nvml), nvml_count = 0;
    nvml_load();
    CHECK(nvml.nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetCount_v2(&nvml_count) == NVML_SUCCESS);
    CHECK_U(nvml_count, ==, nvml_wanted);
    nvmlDevice_t none = NULL;
    CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(nvml_count, &none) == NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < nvml_count; i++) {
        nvmlDevice_t handle = NULL;
        unsigned index = 99;
        CHECK(nvml_uuid(i, uuid) == NVML_SUCCESS);
        CHECK_U(physical(uuid), ==, want_nvml[i]);
        CHECK(nvml.nvmlDeviceGetHandleByUUID(uuid, &handle) == NVML_SUCCESS);
        CHECK(nvml.nvmlDeviceGetIndex(handle, &index) == NVML_SUCCESS);
        CHECK_U(index, ==, i);
    }
    return 0;
}

/* devices_hidden PHYSICAL: a card that is not the instance's can't be had by number, by PCI id or
 * by UUID. */
TEST(devices_hidden)
{
    CHECK(argc > 1);
    nvmlDevice_t handle = NULL;
    CUdevice device = 77;
    driver_load();
    CU_OK(cu.cuInit(0));
    CHECK(cu.cuDeviceGetByPCIBusId(&device, argv[1]) != CUDA_SUCCESS);
    CHECK(device == 77);
    nvml_load();
    CHECK(nvml.nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(argv[0], &handle) != NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetHandleByPciBusId_v2(argv[1], &handle) != NVML_SUCCESS);
    return 0;
}

/* nvml_total_of UUID BYTES: the size of the device by NVML, in a process that uses no CUDA. */
TEST(nvml_total_of)
{
    nvmlDevice_t handle = NULL;
    nvmlMemory_t memory = {0};
    CHECK(argc > 1);
    nvml_load();
    CHECK(nvml.nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(argv[0], &handle) == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS);
    CHECK_U(memory.total, ==, strtoull(argv[1], NULL, 10));
    return 0;
}

/* pci_of PHYSICAL: run without the library. */
TEST(pci_of)
{
    char pci[32];
    driver_load();
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDeviceGetPCIBusId(pci, sizeof pci, atoi(argv[0])));
    puts(pci);
    return 0;
}

/* quota_per_device Q0,Q1,...: bytes by device; each stops at its own, whatever the others do. 0: no
 * limit. */
TEST(quota_per_device)
{
    static CUdeviceptr address[16][512];
    unsigned count[16] = {0};
    uint64_t quota[16];
    int devices = 0;
    const char *text = argv[0];
    CHECK(argc > 0);
    while (*text && devices < 16) {
        quota[devices++] = strtoull(text, (char **)(uintptr_t)&text, 10);
        text += *text == ',';
    }
    for (int i = 0; i < devices; i++) {
        size_t total = 0;
        char uuid[96];
        open_device(i);
        uuid_text(i, uuid);
        int card = (int)physical(uuid);
        CU_OK(cu.cuDeviceTotalMem_v2(&total, i));
        if (quota[i])
            CHECK_U(total, ==, quota[i]);
        while (count[i] < 512) {
            CUresult result = cu.cuMemAlloc_v2(&address[i][count[i]], 32 * MIB);
            if (result != CUDA_SUCCESS) {
                CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
                break;
            }
            count[i]++;
        }
        if (!quota[i])
            CHECK_U(truth_used(card), >, 2 * GIB);
        if (quota[i]) {
            CHECK_U(truth_used(card), <=, quota[i]);
            CHECK_U(truth_used(card) + 32 * MIB, >, quota[i]);
        }
    }
    check_agreement();
    for (int i = 0; i < devices; i++)
        close_device(i);
    return 0;
}

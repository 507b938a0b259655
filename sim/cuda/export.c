/*
 * cuGetExportTable: tables of functions that NVIDIA's CUDA runtime, static or shared, calls beside
 * the driver's API. They are not documented. The facts here (UUIDs, slots, arguments, results) are
 * from the ZLUDA project, https://github.com/vosen/ZLUDA, dark_api/src/lib.rs. A table begins with
 * its size. A slot of unknown use returns NOT_SUPPORTED.
 */
#include "md2.h"
#include "module.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

union slot {
    size_t bytes; /* first slot: size of the table */
    void (*call)(void);
};

static int unknown(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define SIZE(table)                                                                                \
    {                                                                                              \
        .bytes = sizeof(table)                                                                     \
    }
#define CALL(function)                                                                             \
    {                                                                                              \
        .call = (void (*)(void))(function)                                                         \
    }
#define UNKNOWN CALL(unknown)

/* --- contexts and modules --- */

/* The handle of a device's primary context, which need not be active. */
static int primary_handle(struct sim_context **ret_context, int ordinal)
{
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *ret_context = context_primary(ordinal);
    sim_unlock();
    return *ret_context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int load_wrapper(struct sim_module **ret_module, const void *wrapper)
{
    return module_load(ret_module, wrapper);
}

static int load_wrapper_ext(struct sim_module **ret_module, const void *wrapper, void *options,
                            void *values, unsigned count)
{
    (void)options;
    (void)values;
    (void)count;
    return module_load(ret_module, wrapper);
}

static int load_fatbin_ext(const void *fatbin, struct sim_module **ret_module, void *options,
                           void *values, unsigned count)
{
    return load_wrapper_ext(ret_module, fatbin, options, values, count);
}

static void ignore(size_t argument)
{
    (void)argument;
}

static int load_compilers(void)
{
    return CUDA_SUCCESS;
}

/* The runtime asks about a state that no context here is in. */
static int check_context(struct sim_context *context, unsigned *ret_state, const void **ret_unknown)
{
    (void)context;
    (void)ret_unknown;
    if (!ret_state)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_state = 0;
    return CUDA_SUCCESS;
}

static unsigned check_process(void)
{
    return 0;
}

/* Memory in which the runtime and its tools leave notes. The unit of its size is unknown. */
#define NOTES(name, count)                                                                         \
    static void name(void **ret_memory, size_t *ret_count)                                         \
    {                                                                                              \
        static uint64_t notes[count];                                                              \
        *ret_memory = notes;                                                                       \
        *ret_count = (count);                                                                      \
    }
NOTES(notes_of_calls, 1024)
NOTES(notes_of_tools, 14)

static const union slot cudart_interface[13] = {
    SIZE(cudart_interface), CALL(load_wrapper), CALL(primary_handle),  UNKNOWN, UNKNOWN, UNKNOWN,
    CALL(load_wrapper_ext), CALL(ignore),       CALL(load_fatbin_ext), UNKNOWN, UNKNOWN, UNKNOWN,
    CALL(load_compilers),
};

static const union slot tools_tls[4] = {SIZE(tools_tls), UNKNOWN, UNKNOWN, UNKNOWN};

static const union slot tools_hooks[7] = {
    SIZE(tools_hooks), UNKNOWN, CALL(notes_of_calls), UNKNOWN,
    UNKNOWN,           UNKNOWN, CALL(notes_of_tools),
};

/* This one has no size, and ends with a NULL. */
static const union slot context_storage[] = {
    CALL(storage_put), CALL(storage_delete), CALL(storage_get), {.call = NULL}};

static const union slot context_checks[4] = {SIZE(context_checks), UNKNOWN, CALL(check_context),
                                             CALL(check_process)};

static int check_integrity(unsigned version, uint64_t unix_seconds, unsigned char *ret_digest);

static const union slot integrity[3] = {SIZE(integrity), CALL(check_integrity), UNKNOWN};

/*
 * The runtime's check of itself and the driver; it fails with
 * cudaErrorSoftwareValidityNotEstablished. For a version that ends with 0 or 1 the answer is fixed.
 * Otherwise it is a digest of both sides and of the devices.
 */
static int check_integrity(unsigned version, uint64_t unix_seconds, unsigned char *ret_digest)
{
    static const uint64_t fixed[2][2] = {{0x3341181C03CB675C, 0x8ED383AA1F4CD1E8},
                                         {0x1841181C03CB675C, 0x8ED383AA1F4CD1E8}};
    static const unsigned char key[MD2_BYTES] = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                                                 0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};
    struct {
        uint32_t driver, runtime, process, thread;
        const void *interface, *integrity;
        void (*check)(void);
        uint64_t unix_seconds;
    } asked = {
        SIM_DRIVER_VERSION, version,   (uint32_t)getpid(), (uint32_t)(uintptr_t)pthread_self(),
        cudart_interface,   integrity, integrity[1].call,  unix_seconds};
    struct md2 md2;

    if (!ret_digest)
        return CUDA_ERROR_INVALID_VALUE;
    if (version % 10 < 2) {
        memcpy(ret_digest, fixed[version % 10], MD2_BYTES);
        return CUDA_SUCCESS;
    }
    hmac_md2_begin(&md2, key);
    md2_add(&md2, &asked, sizeof(asked));
    for (int ordinal = 0; ordinal < sim.device_count; ordinal++) {
        struct {
            CUuuid uuid;
            int32_t domain, bus, device;
        } card = {.domain = 0, .bus = sim.map[ordinal] + 1, .device = 0};
        memcpy(card.uuid.bytes, sim.state->device[sim.map[ordinal]].uuid, sizeof(card.uuid.bytes));
        md2_add(&md2, &card, sizeof(card));
    }
    hmac_md2_end(&md2, key, ret_digest);
    return CUDA_SUCCESS;
}

static const struct {
    CUuuid uuid;
    const union slot *slots;
} tables[] = {
    {{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
       0xf9}},
     cudart_interface},
    {{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
       0xdc}},
     tools_tls},
    {{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
       0x66}},
     tools_hooks},
    {{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
       0x93}},
     context_storage},
    {{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
       0x7e}},
     context_checks},
    {{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
       0xf2}},
     integrity},
};

API(cuGetExportTable, const void **ret_table, const CUuuid *uuid)
{
    ENTER_EARLY(cuGetExportTable);
    if (!ret_table || !uuid)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < sizeof(tables) / sizeof(tables[0]); at++) {
        if (!memcmp(&tables[at].uuid, uuid, sizeof(*uuid))) {
            *ret_table = tables[at].slots;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

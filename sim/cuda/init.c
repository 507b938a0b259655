/* cuInit: finds the devices, and registers with lower layers what they call in higher ones. */
#include "memory.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

static const struct context_part parts[] = {
    {stream_context_begin, stream_context_end},
    {NULL, module_context_end},
    {NULL, array_context_end},
    {NULL, memory_context_end},
    {NULL, host_context_end},
    {NULL, pool_context_end},
};

static const struct worker_source *const sources[] = {&held_source, &words_source};

static bool hex_digit_of(const char *text, int position, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    char wanted = digits[position ? byte & 15 : byte >> 4];

    return (*text | 0x20) == wanted;
}

/* True if the text, of the given length, is "GPU-" and the beginning of the UUID. */
static bool uuid_begins(const unsigned char *uuid, const char *text, size_t length)
{
    int nibble = 0;

    if (length < 5 || strncmp(text, "GPU-", 4))
        return false;
    for (size_t at = 4; at < length; at++) {
        if (text[at] == '-')
            continue;
        if (nibble >= 32 || !hex_digit_of(text + at, nibble & 1, uuid[nibble / 2]))
            return false;
        nibble++;
    }
    return nibble > 0;
}

/* The physical index that an item of CUDA_VISIBLE_DEVICES names; -1: none, or more than one. */
static int visible_item(const char *text, size_t length)
{
    int found = -1;

    if (length && text[0] >= '0' && text[0] <= '9') {
        long index = strtol(text, NULL, 10);
        return index < (long)sim.state->device_count ? (int)index : -1;
    }
    for (uint32_t index = 0; index < sim.state->device_count; index++) {
        if (!uuid_begins(sim.state->device[index].uuid, text, length))
            continue;
        if (found >= 0)
            return -1;
        found = (int)index;
    }
    return found;
}

/* The order is kept. The list ends at the first item that names no device. A device named twice
 * makes it empty. */
static void read_visible_devices(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t seen = 0;

    sim.device_count = 0;
    if (!text) {
        for (uint32_t index = 0; index < sim.state->device_count; index++)
            sim.map[sim.device_count++] = (int)index;
        return;
    }
    while (*text) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ",");
        size_t trimmed = length;
        while (trimmed && (text[trimmed - 1] == ' ' || text[trimmed - 1] == '\t'))
            trimmed--;
        int index = visible_item(text, trimmed);
        if (index < 0)
            return;
        if (seen & 1u << index) {
            sim.device_count = 0;
            return;
        }
        seen |= 1u << index;
        sim.map[sim.device_count++] = index;
        text += length;
        text += *text == ',';
    }
}

static int initialise(void)
{
    if (state_open(&sim.state))
        return CUDA_ERROR_OPERATING_SYSTEM;
    read_visible_devices();
    if (!sim.device_count)
        return CUDA_ERROR_NO_DEVICE;
    context_set_parts(parts, sizeof(parts) / sizeof(parts[0]));
    worker_set_sources(sources, sizeof(sources) / sizeof(sources[0]));
    return sim_attach();
}

API(cuInit, unsigned flags)
{
    int code = CUDA_SUCCESS;

    ENTER_EARLY(cuInit);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!sim.page->ready) {
        sim_delay(sim.latency_ns);
        code = initialise();
    }
    sim_unlock();
    return code;
}

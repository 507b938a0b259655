/*
 * Faults, delays and durations that a test asks for.
 *
 * SIMGPU_FAULT=symbol:nth:result,...  the nth call of the symbol, from 1, does nothing and returns
 *                                     that result
 * SIMGPU_LATENCY=50us,symbol=20ms,... time added to calls that reach the kernel, and to single
 *                                     symbols
 * SIMGPU_KERNEL=10us,gemm=2ms,...     how long kernels take, and those with the text in their name
 */
#include "fault.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS     32
#define KERNEL_NS 10000

static struct {
    char symbol[80];
    uint64_t nth;
    uint64_t calls;
    int result;
} faults[ITEMS];

/* Times by name, and the time for all other names. */
static struct times {
    struct {
        char name[80];
        uint64_t time_ns;
    } items[ITEMS];
    int count;
    uint64_t other_ns;
} delays, kernels = {.other_ns = KERNEL_NS};

static int fault_count;

static void read_fault(const char *item)
{
    unsigned long long nth;
    int result;

    if (fault_count == ITEMS ||
        sscanf(item, "%79[^:]:%llu:%d", faults[fault_count].symbol, &nth, &result) != 3)
        return;
    faults[fault_count].nth = nth;
    faults[fault_count].result = result;
    fault_count++;
}

static void read_time(struct times *times, const char *item)
{
    const char *value = strchr(item, '=');

    if (!value) {
        times->other_ns = sim_parse_ns(item, times->other_ns);
        return;
    }
    if (times->count == ITEMS || value - item >= 80)
        return;
    memcpy(times->items[times->count].name, item, (size_t)(value - item));
    times->items[times->count++].time_ns = sim_parse_ns(value + 1, 0);
}

static void read_delay(const char *item)
{
    read_time(&delays, item);
}

static void read_kernel(const char *item)
{
    read_time(&kernels, item);
}

static void each_item(const char *text, void (*function)(const char *item))
{
    char item[256];

    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (length < sizeof(item)) {
            memcpy(item, text, length);
            item[length] = 0;
            function(item);
        }
        text += length;
        text += *text == ',';
    }
}

void fault_read_environment(void)
{
    each_item(getenv("SIMGPU_FAULT"), read_fault);
    each_item(getenv("SIMGPU_LATENCY"), read_delay);
    each_item(getenv("SIMGPU_KERNEL"), read_kernel);
}

bool fault_any(void)
{
    return fault_count || delays.count;
}

int fault_next(const char *symbol)
{
    int result = -1;

    for (int index = 0; index < fault_count; index++) {
        if (strcmp(faults[index].symbol, symbol))
            continue;
        if (__atomic_add_fetch(&faults[index].calls, 1, __ATOMIC_RELAXED) == faults[index].nth)
            result = faults[index].result;
    }
    return result;
}

uint64_t fault_latency(const char *symbol)
{
    for (int index = 0; index < delays.count; index++) {
        if (!strcmp(delays.items[index].name, symbol))
            return delays.items[index].time_ns;
    }
    return 0;
}

uint64_t fault_latency_of_all(void)
{
    return delays.other_ns;
}

uint64_t fault_kernel_ns(const char *name)
{
    for (int index = 0; index < kernels.count; index++) {
        if (strstr(name, kernels.items[index].name))
            return kernels.items[index].time_ns;
    }
    return kernels.other_ns;
}

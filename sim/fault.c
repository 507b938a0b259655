/*
 * Faults and delays that a test asks for.
 *
 * SIMGPU_FAULT=symbol:nth:result,...   the nth call of the symbol (1 for the first) returns that result and does
 * nothing SIMGPU_LATENCY=50us,symbol=20ms,...  time added to calls that reach the kernel, and to single symbols
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 32

static struct {
    char symbol[80];
    uint64_t nth;
    uint64_t calls;
    int result;
} faults[ITEMS];

static struct {
    char symbol[80];
    uint64_t delay_ns;
} delays[ITEMS];

static int fault_count, delay_count;
static uint64_t delay_of_all_ns;

static void read_fault(const char *item)
{
    unsigned long long nth;
    int result;

    if (fault_count == ITEMS || sscanf(item, "%79[^:]:%llu:%d", faults[fault_count].symbol, &nth, &result) != 3)
        return;
    faults[fault_count].nth = nth;
    faults[fault_count].result = result;
    fault_count++;
}

static void read_delay(const char *item)
{
    const char *value = strchr(item, '=');

    if (!value) {
        delay_of_all_ns = sim_parse_ns(item, 0);
        return;
    }
    if (delay_count == ITEMS || value - item >= 80)
        return;
    memcpy(delays[delay_count].symbol, item, (size_t)(value - item));
    delays[delay_count++].delay_ns = sim_parse_ns(value + 1, 0);
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
}

bool fault_any(void)
{
    return fault_count || delay_count;
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
    for (int index = 0; index < delay_count; index++) {
        if (!strcmp(delays[index].symbol, symbol))
            return delays[index].delay_ns;
    }
    return 0;
}

uint64_t fault_latency_of_all(void)
{
    return delay_of_all_ns;
}

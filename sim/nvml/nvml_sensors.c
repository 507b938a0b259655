/* NVML's clocks, links and sensors, as of an H200, which has no fan. Values that vary on a GPU
 * follow the device's utilisation in the last window. */
#include "nvml/nvml.h"
#include "state.h"

#include <time.h>

#define LINK_GENERATION    5
#define LINK_WIDTH         16
#define LINK_WINDOW_NS     20000000 /* NVML counts a link's bytes for that long */
#define ENGINE_PERIOD_US   167000
#define IDLE_MILLIWATT     75000
#define LIMIT_MILLIWATT    700000
#define IDLE_DEGREES       30
#define BUSY_DEGREES       65
#define SHUTDOWN_DEGREES   92
#define SLOWDOWN_DEGREES   89
#define MAX_MEMORY_DEGREES 95
#define MAX_GPU_DEGREES    87

/* NVML's clocks: graphics, SM, memory, video; in MHz. */
static const struct clock {
    unsigned idle, max;
} clocks[] = {{345, 1980}, {345, 1980}, {3201, 3201}, {765, 1545}};

#define CLOCKS (sizeof(clocks) / sizeof(clocks[0]))

/* From idle to busy, as the device works. */
static int by_load(const char *symbol, const char *handle, unsigned idle, unsigned busy,
                   unsigned *ret_value)
{
    unsigned percent;

    int code = nvml_load(symbol, handle, &percent);
    if (code)
        return code;
    if (!ret_value)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_value = idle + (busy - idle) * percent / 100;
    return NVML_SUCCESS;
}

static int constant(const char *symbol, const char *handle, unsigned value, unsigned *ret_value)
{
    return by_load(symbol, handle, value, value, ret_value);
}

NVML(nvmlDeviceGetClockInfo, const char *handle, unsigned type, unsigned *ret_mhz)
{
    unsigned percent;

    int code = nvml_load("nvmlDeviceGetClockInfo", handle, &percent);
    if (code)
        return code;
    if (type >= CLOCKS || !ret_mhz)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_mhz = percent ? clocks[type].max : clocks[type].idle;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMaxClockInfo, const char *handle, unsigned type, unsigned *ret_mhz)
{
    unsigned known = type < CLOCKS ? type : 0;

    return constant("nvmlDeviceGetMaxClockInfo", handle, clocks[known].max,
                    type < CLOCKS ? ret_mhz : NULL);
}

NVML(nvmlDeviceGetCurrPcieLinkGeneration, const char *handle, unsigned *ret_generation)
{
    return constant("nvmlDeviceGetCurrPcieLinkGeneration", handle, LINK_GENERATION, ret_generation);
}

NVML(nvmlDeviceGetMaxPcieLinkGeneration, const char *handle, unsigned *ret_generation)
{
    return constant("nvmlDeviceGetMaxPcieLinkGeneration", handle, LINK_GENERATION, ret_generation);
}

NVML(nvmlDeviceGetCurrPcieLinkWidth, const char *handle, unsigned *ret_width)
{
    return constant("nvmlDeviceGetCurrPcieLinkWidth", handle, LINK_WIDTH, ret_width);
}

NVML(nvmlDeviceGetMaxPcieLinkWidth, const char *handle, unsigned *ret_width)
{
    return constant("nvmlDeviceGetMaxPcieLinkWidth", handle, LINK_WIDTH, ret_width);
}

/* Bytes that all processes copied that way. Dead ones count until their slot is reused. */
static uint64_t copied(struct sim_state *state, int index, enum sim_way way)
{
    uint64_t bytes = 0;

    state_lock(state);
    for (uint32_t slot = 0; slot < state->process_count; slot++)
        bytes += state->process[slot].copied[index][way];
    state_unlock(state);
    return bytes;
}

/* In KB a second. The device transmits to the host. */
NVML(nvmlDeviceGetPcieThroughput, const char *handle, unsigned counter, unsigned *ret_rate)
{
    static const enum sim_way ways[] = {SIM_TO_HOST, SIM_TO_DEVICE};
    struct timespec window = {.tv_nsec = LINK_WINDOW_NS};
    struct sim_state *state;

    int index = nvml_device("nvmlDeviceGetPcieThroughput", handle, &state);
    if (index < 0)
        return -index;
    if (counter >= SIM_WAYS || !ret_rate)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t from_ns = sim_now_ns(), before = copied(state, index, ways[counter]);
    nanosleep(&window, NULL);
    uint64_t after = copied(state, index, ways[counter]), took_ns = sim_now_ns() - from_ns;
    *ret_rate = after > before && took_ns
                    ? (unsigned)((double)(after - before) * 1e6 / (double)took_ns)
                    : 0;
    return NVML_SUCCESS;
}

/* Utilisation of an engine that simgpu lacks, and the period of the measurement. */
static int idle_engine(const char *symbol, const char *handle, unsigned *ret_percent,
                       unsigned *ret_period_us)
{
    int code = constant(symbol, handle, 0, ret_percent);
    if (code)
        return code;
    if (!ret_period_us)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_period_us = ENGINE_PERIOD_US;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetEncoderUtilization, const char *handle, unsigned *ret_percent,
     unsigned *ret_period_us)
{
    return idle_engine("nvmlDeviceGetEncoderUtilization", handle, ret_percent, ret_period_us);
}

NVML(nvmlDeviceGetDecoderUtilization, const char *handle, unsigned *ret_percent,
     unsigned *ret_period_us)
{
    return idle_engine("nvmlDeviceGetDecoderUtilization", handle, ret_percent, ret_period_us);
}

NVML(nvmlDeviceGetTemperature, const char *handle, unsigned sensor, unsigned *ret_degrees)
{
    return by_load("nvmlDeviceGetTemperature", handle, IDLE_DEGREES, BUSY_DEGREES,
                   sensor ? NULL : ret_degrees);
}

/* Cards without a fan have no acoustic thresholds. */
NVML(nvmlDeviceGetTemperatureThreshold, const char *handle, unsigned type, unsigned *ret_degrees)
{
    static const unsigned degrees[] = {SHUTDOWN_DEGREES, SLOWDOWN_DEGREES, MAX_MEMORY_DEGREES,
                                       MAX_GPU_DEGREES};
    enum { KNOWN = sizeof(degrees) / sizeof(degrees[0]), ALL = 8 };

    int code = constant("nvmlDeviceGetTemperatureThreshold", handle,
                        degrees[type < KNOWN ? type : 0], type < ALL ? ret_degrees : NULL);
    return code || type < KNOWN ? code : NVML_ERROR_NOT_SUPPORTED;
}

NVML(nvmlDeviceGetFanSpeed, const char *handle, unsigned *ret_percent)
{
    struct sim_state *state;

    int index = nvml_device("nvmlDeviceGetFanSpeed", handle, &state);
    if (index < 0)
        return -index;
    return ret_percent ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

NVML(nvmlDeviceGetPowerUsage, const char *handle, unsigned *ret_milliwatt)
{
    return by_load("nvmlDeviceGetPowerUsage", handle, IDLE_MILLIWATT, LIMIT_MILLIWATT,
                   ret_milliwatt);
}

NVML(nvmlDeviceGetEnforcedPowerLimit, const char *handle, unsigned *ret_milliwatt)
{
    return constant("nvmlDeviceGetEnforcedPowerLimit", handle, LIMIT_MILLIWATT, ret_milliwatt);
}

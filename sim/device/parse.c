/* Sizes and durations in the environment, and the clock. */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

uint64_t sim_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

uint64_t sim_namespace_inode(void)
{
    struct stat info;

    return stat("/proc/self/ns/pid", &info) ? 0 : info.st_ino;
}

struct unit {
    const char *name;
    double factor;
};

/* Reads a number and a unit, in upper or lower case. A number without a unit counts ones. */
static uint64_t parse(const char *text, const struct unit *unit, uint64_t fallback)
{
    char *end;

    if (!text || !*text)
        return fallback;
    double value = strtod(text, &end);
    if (end == text || value < 0)
        return fallback;
    while (unit->name && strncasecmp(end, unit->name, strlen(unit->name)))
        unit++;
    return (uint64_t)(value * unit->factor);
}

uint64_t sim_parse_bytes(const char *text, uint64_t fallback)
{
    static const struct unit units[] = {
        {"k", 1024}, {"m", 1048576}, {"g", 1073741824}, {"t", 1099511627776.0}, {NULL, 1}};

    return parse(text, units, fallback);
}

uint64_t sim_parse_ns(const char *text, uint64_t fallback)
{
    static const struct unit units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 1}};

    return parse(text, units, fallback);
}

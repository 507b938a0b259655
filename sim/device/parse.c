/* Sizes and durations in the environment, and the clock. */
#include "state.h"

#include <stdlib.h>
#include <string.h>
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

uint64_t sim_parse_bytes(const char *text, uint64_t fallback)
{
    char *end;

    if (!text || !*text)
        return fallback;
    double value = strtod(text, &end);
    if (end == text || value < 0)
        return fallback;
    switch (*end) {
    case 'k':
    case 'K':
        return (uint64_t)(value * 1024);
    case 'm':
    case 'M':
        return (uint64_t)(value * 1048576);
    case 'g':
    case 'G':
        return (uint64_t)(value * 1073741824);
    case 't':
    case 'T':
        return (uint64_t)(value * 1099511627776.0);
    default:
        return (uint64_t)value;
    }
}

uint64_t sim_parse_ns(const char *text, uint64_t fallback)
{
    char *end;

    if (!text || !*text)
        return fallback;
    double value = strtod(text, &end);
    if (end == text || value < 0)
        return fallback;
    if (!strncmp(end, "us", 2))
        return (uint64_t)(value * 1e3);
    if (!strncmp(end, "ms", 2))
        return (uint64_t)(value * 1e6);
    if (*end == 's')
        return (uint64_t)(value * 1e9);
    return (uint64_t)value;
}

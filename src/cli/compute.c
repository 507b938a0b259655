#include "cli/compute.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t compute_gpu_ns(const struct vgpu_compute_usage *usage)
{
    uint64_t ns = 0;

    for (unsigned work = 0; work < VGPU_WORKS; work++)
        ns += vgpu_work_is_time(work) ? usage->amount[work] : 0;
    return ns;
}

bool compute_used(const struct vgpu_compute_usage *usage)
{
    for (unsigned work = 0; work < VGPU_WORKS; work++)
        if (usage->calls[work] || usage->amount[work])
            return true;
    return false;
}

const char *compute_show(enum cli_type type, uint64_t value, char *buffer, size_t size)
{
    unsigned count;

    if (cli_words(type, &count))
        return cli_word_name(type, value);
    if (type == CLI_NUMBER)
        snprintf(buffer, size, "%" PRIu64, value);
    else if (value)
        format_bytes(value, buffer, size);
    else
        snprintf(buffer, size, "none");
    return buffer;
}

const char *format_cap(const struct vgpu_limits *limits, unsigned vdev, char *buffer, size_t size)
{
    uint32_t percent = limits->vdev[vdev].cap_percent, policy = limits->compute.cap_policy;

    if (!percent)
        snprintf(buffer, size, "none");
    else if (policy == VGPU_CAP_HARD)
        snprintf(buffer, size, "%u%%", percent);
    else
        snprintf(buffer, size, "%u%% %s", percent, cli_word_name(CLI_CAP_POLICY, policy));
    return buffer;
}

const char *format_share(uint64_t part_ns, uint64_t whole_ns, char *buffer, size_t size)
{
    snprintf(buffer, size, "%.1f%%",
             part_ns < whole_ns ? 100.0 * (double)part_ns / (double)whole_ns : 100.0);
    return buffer;
}

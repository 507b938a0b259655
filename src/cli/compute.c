#include "cli/compute.h"

#include <stdio.h>
#include <string.h>

#define X(id, name) name,
static const char *const cap_names[] = {VGPU_CAP_POLICY_LIST(X)};
static const char *const turn_names[] = {VGPU_TURN_POLICY_LIST(X)};
#undef X

const char *cap_policy_name(uint32_t cap_policy)
{
    return cap_policy < VGPU_CAP_POLICIES ? cap_names[cap_policy] : "?";
}

const char *turn_policy_name(uint32_t turn_policy)
{
    return turn_policy == 0                    ? NULL
           : turn_policy <= VGPU_TURN_POLICIES ? turn_names[turn_policy - 1]
                                               : "?";
}

bool cap_policy_parse(const char *name, uint32_t *ret_cap_policy)
{
    for (uint32_t i = 0; i < VGPU_CAP_POLICIES; i++)
        if (i != VGPU_CAP_OFF && !strcmp(name, cap_names[i])) {
            *ret_cap_policy = i;
            return true;
        }
    return false;
}

bool turn_policy_parse(const char *name, uint32_t *ret_turn_policy)
{
    for (uint32_t i = 0; i < VGPU_TURN_POLICIES; i++)
        if (!strcmp(name, turn_names[i])) {
            *ret_turn_policy = i + 1;
            return true;
        }
    return false;
}

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

const char *format_cap(const struct vgpu_limits *limits, unsigned vdev, char *buffer, size_t size)
{
    uint32_t percent = limits->vdev[vdev].cap_percent, policy = limits->compute.cap_policy;

    if (!percent)
        snprintf(buffer, size, "none");
    else if (policy == VGPU_CAP_HARD)
        snprintf(buffer, size, "%u%%", percent);
    else
        snprintf(buffer, size, "%u%% %s", percent, cap_policy_name(policy));
    return buffer;
}

const char *format_share(uint64_t part_ns, uint64_t whole_ns, char *buffer, size_t size)
{
    snprintf(buffer, size, "%.1f%%",
             part_ns < whole_ns ? 100.0 * (double)part_ns / (double)whole_ns : 100.0);
    return buffer;
}

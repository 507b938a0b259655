#include "cli/run.h"

#include "base/parse.h"
#include "cli/compute.h"
#include "cli/message.h"

static bool take_number(const char *option, const char *text, uint64_t min, uint64_t max,
                        const char *meaning, uint32_t *ret_number)
{
    uint64_t number;

    if (parse_count(text, min, max, &number)) {
        message_error("run: --%s \"%.64s\": use a whole number from %u to %u; %s", option, text,
                      (unsigned)min, (unsigned)max, meaning);
        return false;
    }
    *ret_number = (uint32_t)number;
    return true;
}

static bool take_policies(const struct run_options *options, struct vgpu_compute *compute)
{
    if (options->cores_policy && !cap_policy_parse(options->cores_policy, &compute->cap_policy)) {
        message_error("run: --cores-policy \"%.64s\": there is no such policy; use hard (the cap "
                      "always holds) or elastic "
                      "(it holds while another instance uses the device)",
                      options->cores_policy);
        return false;
    }
    if (options->policy && !turn_policy_parse(options->policy, &compute->turn_policy)) {
        message_error("run: --policy \"%.64s\": there is no such policy; use fair, priority, mlfq, "
                      "rr or adaptive",
                      options->policy);
        return false;
    }
    return true;
}

bool run_compute(const struct run_options *options, struct instance_request *request)
{
    struct vgpu_compute *compute = &request->limits.compute;

    request->has_cap_policy = options->cores_policy != NULL;
    request->has_weight = options->weight != NULL;
    request->has_priority = options->priority != NULL;
    request->has_copy_rate = options->copy_bw != NULL;
    if (options->weight &&
        !take_number("weight", options->weight, 1, VGPU_WEIGHT_MAX,
                     "an instance with 200 gets twice what one with 100 gets", &compute->weight))
        return false;
    if (options->priority &&
        !take_number("priority", options->priority, 0, VGPU_PRIORITY_MAX,
                     "the highest goes first, the default is 0", &compute->priority))
        return false;
    if (options->copy_bw && !run_size("copy-bw", options->copy_bw, &compute->copy_bytes_s))
        return false;
    return take_policies(options, compute);
}

/* The guard of a run: checks that it can work, starts it and reports its findings. */
#include "cli/run.h"

#include "base/err.h"
#include "base/setting.h"
#include "cli/message.h"
#include "cli/path.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *run_guard_devices(void)
{
    return setting_text(SETTING_GUARD_DEVICES);
}

const char *run_guard_nvml(void)
{
    return setting_text(SETTING_GUARD_NVML);
}

/* False: the setting is none of its words. */
static bool read_maps(bool *ret_maps)
{
    const char *chosen = setting_text(SETTING_GUARD_MAP);

    *ret_maps = chosen && strcasecmp(chosen, "supervisor") == 0;
    if (!chosen || setting_accepts(SETTING_GUARD_MAP, chosen))
        return true;
    message_error("run: %s is \"%s\"; use one of %s", setting_name(SETTING_GUARD_MAP), chosen,
                  setting_rows[SETTING_GUARD_MAP].range);
    return false;
}

int run_guard_choose(struct run_options *options)
{
    struct guard_finding findings[GUARD_FACTS];
    bool permissive = options->guard == GUARD_PERMISSIVE, works = true;

    if (options->guard == GUARD_OFF)
        return RUN_GO_ON;
    guard_preflight(run_guard_devices(), run_guard_nvml(), findings);
    for (unsigned fact = 0; fact < GUARD_FACTS; fact++) {
        if (findings[fact].rc >= 0)
            continue;
        works = false;
        if (permissive)
            message_warning("the guard cannot work here: %s", findings[fact].text);
        else
            message_error("run: --guard cannot work here: %s", findings[fact].text);
    }
    if (works)
        return RUN_GO_ON;
    if (!permissive) {
        message_error("run: leave --guard out, or use --guard=permissive, to have the limits kept "
                      "by the preloaded "
                      "library; `vgpu doctor` shows what else there is");
        return RUN_FAILED;
    }
    message_warning("the limits are kept by the preloaded library instead");
    options->guard = GUARD_OFF;
    return RUN_GO_ON;
}

/*
 * False: it is no absolute path. The user chooses the library; the loader does not search for it.
 */
static bool read_nvml(const char **ret_nvml)
{
    *ret_nvml = run_guard_nvml();
    if (!*ret_nvml || (*ret_nvml)[0] == '/')
        return true;
    message_error("run: VGPU_NVML is \"%s\"; it has to be the absolute path of libnvidia-ml.so.1",
                  *ret_nvml);
    return false;
}

bool run_guard_new(const struct run_options *options, const struct instance *instance,
                   struct run_guard *ret_guard)
{
    char path[PATH_MAX], text[128];
    struct guard_config config = {.mode = options->guard,
                                  .region_path = path,
                                  .limits = &instance->limits,
                                  .device_dir = run_guard_devices(),
                                  .shares = !options->preload};
    int error;

    *ret_guard = (struct run_guard){.mode = options->guard};
    if (options->guard == GUARD_OFF)
        return true;
    if (!read_maps(&config.maps) || !read_nvml(&config.nvml))
        return false;
    error = path_join(path, sizeof(path), instance->dir, INSTANCE_REGION) ? 0 : -ENAMETOOLONG;
    if (error)
        message_error("run: the guard cannot be made: %s", err_text(error, text, sizeof(text)));
    else
        error = guard_new(&config, &ret_guard->guard); /* it writes its own messages */
    return error == 0;
}

int run_guard_end(struct run_guard *guard, const char *instance_name, int result)
{
    const struct guard_report *report = &guard->report;

    if (!guard->guard)
        return result;
    guard_report(guard->guard, &guard->report);
    guard_end(guard->guard);
    guard->guard = NULL;
    if (report->ended) {
        message_error("run: the guard has ended instance %s (--guard=strict): it held memory that "
                      "the guard has not counted, or kept vgpu from checking",
                      instance_name);
        return RUN_SIGNAL_BASE + SIGKILL;
    }
    if (report->audit_differences)
        message_warning(
            "instance %s held more memory by the driver's count than by the guard's: %" PRIu64
            " of %" PRIu64 " audits found that; its quota may have been exceeded",
            instance_name, report->audit_differences, report->audits);
    return result;
}

/* The command line of `vgpu run`, and options that exclude each other. */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/message.h"

/* An option that needs the library; NULL: none is given. */
static const char *library_only(const struct run_options *options, const char **ret_reason)
{
    *ret_reason = "limits";
    if (options->host_mem.text)
        return "--host-mem";
    if (options->copy_bytes_s.text)
        return "--copy-bw";
    *ret_reason = "traces";
    return options->trace ? "--trace" : NULL;
}

static bool options_agree(const struct run_options *options)
{
    const char *alone, *reason;

    if (options->preload && options->guard == GUARD_OFF) {
        message_error("run: --preload goes with --guard only: without --guard the library is "
                      "preloaded in any case");
        return false;
    }
    if (options->guard == GUARD_OFF)
        return true;
    if (options->sim) {
        message_error(
            "run: --guard and --sim do not go together: the guard stands between the program and "
            "NVIDIA's "
            "kernel module, which the simulated driver does not use; leave one of them out");
        return false;
    }
    alone = options->preload ? NULL : library_only(options, &reason);
    if (alone)
        message_error("run: %s: the guard alone cannot do this, because it is the preloaded "
                      "library that %s such things; "
                      "add --preload, or leave %s out",
                      alone, reason, alone);
    return !alone;
}

int run_options_take(char **argv, struct run_options *ret_options)
{
    struct run_options options = {.guard = GUARD_OFF};
    int status;

    if (!options_parse("run", argv, &options, &options.command, &status))
        return status == STATUS_USAGE ? RUN_FAILED : status;
    if (!*options.command) {
        message_error("run: there is no command to run; `vgpu run --mem 8G -- COMMAND` starts one, "
                      "`vgpu help run` explains");
        return RUN_FAILED;
    }
    if (!options_agree(&options))
        return RUN_FAILED;
    *ret_options = options;
    return RUN_GO_ON;
}

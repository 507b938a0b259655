/* The command line of `vgpu run`, and options that exclude each other. */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/message.h"

/* A given option that needs the library; NULL: there is none. */
static const struct cli_option *library_only(const struct run_options *options)
{
    for (const struct cli_option *option = cli_options; option->command; option++)
        if (option->library && *(const char *const *)((const char *)options + option->offset))
            return option;
    return NULL;
}

static bool options_agree(const struct run_options *options)
{
    const struct cli_option *option;

    if (options->preload && options->guard == GUARD_OFF) {
        message_error("run: --preload goes with --guard only: without --guard the library is "
                      "preloaded in any case");
        return false;
    }
    if (options->guard == GUARD_OFF)
        return true;
    if (options->sim) {
        message_error(
            "run: --guard and --sim do not go together: the simulated driver makes no calls that a "
            "guard could check; leave one of them out");
        return false;
    }
    option = options->preload ? NULL : library_only(options);
    if (option)
        message_error("run: --%s: only the preloaded library can do this; add --preload, or leave "
                      "--%s out",
                      option->name, option->name);
    return !option;
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

/* The command line of `vgpu run`, and what of it does not go together. */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

static bool guard_mode_parse(const char *word, enum guard_mode *ret_mode)
{
    if (word && strcmp(word, "strict") && strcmp(word, "permissive"))
        return false;
    *ret_mode = !word ? GUARD_ON : !strcmp(word, "strict") ? GUARD_STRICT : GUARD_PERMISSIVE;
    return true;
}

static int take_guard(const char *value, struct run_options *options)
{
    if (guard_mode_parse(value, &options->guard))
        return RUN_GO_ON;
    message_error("run: --guard=%.64s: there is no such mode; use --guard, --guard=strict or "
                  "--guard=permissive",
                  value);
    return RUN_FAILED;
}

/* Options whose text is kept as it is. NULL: it is none of them. */
static const char **text_of(struct run_options *options, enum cli_opt opt)
{
    switch (opt) {
    case OPT_NAME:
        return &options->name;
    case OPT_GPU:
        return &options->gpu;
    case OPT_MEM:
        return &options->mem;
    case OPT_HOST_MEM:
        return &options->host_mem;
    case OPT_CORES:
        return &options->cores;
    case OPT_CORES_POLICY:
        return &options->cores_policy;
    case OPT_WEIGHT:
        return &options->weight;
    case OPT_PRIORITY:
        return &options->priority;
    case OPT_POLICY:
        return &options->policy;
    case OPT_COPY_BW:
        return &options->copy_bw;
    case OPT_TRACE:
        return &options->trace;
    default:
        return NULL;
    }
}

static int take_option(struct run_options *options, const struct cli_option *option,
                       const char *value)
{
    const char **text = text_of(options, option->opt);

    if (text) {
        *text = value;
        return RUN_GO_ON;
    }
    switch (option->opt) {
    case OPT_STATS:
        options->stats = true;
        return RUN_GO_ON;
    case OPT_SIM:
        options->sim = true;
        return RUN_GO_ON;
    case OPT_PRELOAD:
        options->preload = true;
        return RUN_GO_ON;
    case OPT_GUARD:
        return take_guard(value, options);
    case OPT_ENV:
        return run_env_set(value) ? RUN_GO_ON : RUN_FAILED;
    default:
        help_print(stdout, "run");
        return command_finish_output();
    }
}

/* What only the library can do. NULL: nothing of it was asked for. */
static const char *library_only(const struct run_options *options, const char **ret_reason)
{
    *ret_reason = "limits";
    if (options->host_mem)
        return "--host-mem";
    if (options->copy_bw)
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
    struct cli_parse parse = {.command = "run", .argv = argv + 1, .options_end_at_operand = true};
    struct run_options options = {.guard = GUARD_OFF};
    const struct cli_option *option = NULL;
    const char *value = NULL;
    enum cli_item item;

    while ((item = cli_next(&parse, &option, &value)) == ITEM_OPTION) {
        int status = take_option(&options, option, value);

        if (status != RUN_GO_ON)
            return status;
    }
    if (item == ITEM_ERROR)
        return RUN_FAILED;
    if (item == ITEM_END) {
        message_error("run: there is no command to run; `vgpu run --mem 8G -- COMMAND` starts one, "
                      "`vgpu help run` explains");
        return RUN_FAILED;
    }
    options.command = parse.argv;
    if (!options_agree(&options))
        return RUN_FAILED;
    *ret_options = options;
    return RUN_GO_ON;
}

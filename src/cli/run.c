#include "cli/run.h"

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/layout.h"
#include "cli/message.h"
#include "cli/program.h"
#include "cli/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GO_ON (-1)

/* Where things are; "" where they are not needed. */
struct places {
    char program[PATH_MAX], library[PATH_MAX], sim[PATH_MAX], nvml[PATH_MAX + 32], trace[PATH_MAX];
};

static int take_option(struct run_options *options, const struct cli_option *option, const char *value)
{
    switch (option->opt) {
    case OPT_NAME:
        options->name = value;
        break;
    case OPT_GPU:
        options->gpu = value;
        break;
    case OPT_MEM:
        options->mem = value;
        break;
    case OPT_HOST_MEM:
        options->host_mem = value;
        break;
    case OPT_CORES:
        options->cores = value;
        break;
    case OPT_CORES_POLICY:
        options->cores_policy = value;
        break;
    case OPT_WEIGHT:
        options->weight = value;
        break;
    case OPT_PRIORITY:
        options->priority = value;
        break;
    case OPT_POLICY:
        options->policy = value;
        break;
    case OPT_COPY_BW:
        options->copy_bw = value;
        break;
    case OPT_STATS:
        options->stats = true;
        break;
    case OPT_TRACE:
        options->trace = value;
        break;
    case OPT_SIM:
        options->sim = true;
        break;
    case OPT_ENV:
        return run_env_set(value) ? GO_ON : RUN_FAILED;
    case OPT_HELP:
    case OPT_VERSION:
    case OPT_JSON:
        help_print(stdout, "run");
        return command_finish_output();
    }
    return GO_ON;
}

/* GO_ON, or what to exit with. */
static int take_options(char **argv, struct run_options *ret_options)
{
    struct cli_parse parse = {.command = "run", .argv = argv + 1, .options_end_at_operand = true};
    const struct cli_option *option = NULL;
    const char *value = NULL;
    enum cli_item item;

    while ((item = cli_next(&parse, &option, &value)) == ITEM_OPTION) {
        int status = take_option(ret_options, option, value);

        if (status != GO_ON)
            return status;
    }
    if (item == ITEM_ERROR)
        return RUN_FAILED;
    if (item == ITEM_END) {
        message_error(
            "run: there is no command to run; `vgpu run --mem 8G -- COMMAND` starts one, `vgpu help run` explains");
        return RUN_FAILED;
    }
    ret_options->command = parse.argv;
    return GO_ON;
}

static int find_library(bool trace, char *ret_path, size_t size)
{
    const char *chosen = getenv("VGPU_LIBRARY");
    int error = layout_library(trace, ret_path, size);

    if (error == -EINVAL)
        message_error(
            "run: the library's path \"%s\" has a space or a colon in it, at which the loader would cut it; install "
            "vgpu elsewhere, or give a path without them in VGPU_LIBRARY",
            ret_path);
    else if (error && chosen && *chosen)
        message_error("run: VGPU_LIBRARY=%s cannot be read", ret_path);
    else if (error)
        message_error(
            "run: %s is neither beside the vgpu command nor in ../%s; install it, or give its path in VGPU_LIBRARY",
            trace ? "libvgpu-trace.so" : "libvgpu.so", VGPU_LIBDIR);
    return error ? RUN_FAILED : GO_ON;
}

static int find_sim(struct places *places)
{
    int error = layout_sim(places->sim, sizeof(places->sim));

    if (error == -EINVAL)
        message_error("run: --sim: the path %s has a colon or a semicolon in it, at which the loader would cut it",
                      places->sim);
    else if (error)
        message_error("run: --sim: the simulated driver sim/libcuda.so.1 is neither beside the vgpu command nor in "
                      "../%s; build or "
                      "install it",
                      VGPU_LIBDIR);
    if (error)
        return RUN_FAILED;
    snprintf(places->nvml, sizeof(places->nvml), "%s/libnvidia-ml.so.1", places->sim);
    return GO_ON;
}

/* The trace file exists from now on, is empty, and its path holds wherever the command goes. */
static int prepare_trace(const char *file, char *ret_path, size_t size)
{
    int fd CLEANUP_CLOSE = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    char *real = fd < 0 ? NULL : realpath(file, NULL);

    if (fd < 0 || !real || strlen(real) >= size) {
        message_error("run: --trace %s: cannot be written: %s", file,
                      fd < 0 ? strerror(errno) : "its path is too long");
        free(real);
        return RUN_FAILED;
    }
    memcpy(ret_path, real, strlen(real) + 1);
    free(real);
    return GO_ON;
}

static int find_program(const char *name, char *ret_path, size_t size)
{
    int error = program_find(name, ret_path, size);

    if (error == -ENOENT)
        message_error("run: %s: not found%s", name, strchr(name, '/') ? "" : " in PATH");
    else if (error)
        message_error("run: %s: cannot be executed (it is a directory, or the permission is missing)", ret_path);
    return !error ? GO_ON : error == -ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

static int find_places(const struct run_options *options, struct places *places)
{
    int status = find_program(options->command[0], places->program, sizeof(places->program));

    if (status == GO_ON)
        status = find_library(options->trace != NULL, places->library, sizeof(places->library));
    if (status == GO_ON && options->sim)
        status = find_sim(places);
    if (status == GO_ON && options->trace)
        status = prepare_trace(options->trace, places->trace, sizeof(places->trace));
    return status;
}

static void warn_about_program(const char *path)
{
    struct program_info info;
    const char *obstacle;

    program_examine(path, &info);
    obstacle = program_obstacle(info.binding);
    if (obstacle)
        message_warning("%s %s, so the quota does not bind it (programs that it starts may be bound)", info.file,
                        obstacle);
}

static void warn_about_nesting(const char *name)
{
    const char *outer = getenv("VGPU_INSTANCE");
    const char *base = outer && strrchr(outer, '/') ? strrchr(outer, '/') + 1 : outer;

    if (outer && *outer && strcmp(base, name))
        message_warning("this runs inside instance %s; the limits of instance %s apply to the command instead", base,
                        name);
}

struct ending {
    struct instance *instance;
    const char *trace;
    bool stats;
};

static void finish(void *argument)
{
    struct ending *ending = argument;

    if (*ending->trace)
        run_trace_summary(ending->instance->dir, ending->trace);
    if (ending->stats)
        run_stats_summary(ending->instance);
    instance_leave(ending->instance);
}

int command_run(char **argv)
{
    static struct places places;
    struct run_options options = {.name = NULL};
    struct instance_request request;
    struct instance instance;
    struct ending ending = {.instance = &instance, .trace = places.trace};
    int status = take_options(argv, &options);

    if (status == GO_ON)
        status = find_places(&options, &places);
    if (status != GO_ON)
        return status;
    if (!run_limits(&options, options.sim ? places.nvml : NULL, &request) || instance_enter(&request, &instance))
        return RUN_FAILED;
    if (options.sim)
        message_note("no GPU is involved: the driver is simulated (%s)", places.sim);
    warn_about_nesting(instance.name);
    warn_about_program(places.program);
    if ((options.trace && !run_trace_prepare(instance.dir)) ||
        !run_env(instance.dir, places.library, options.trace ? places.trace : NULL, options.sim ? places.sim : NULL)) {
        instance_leave(&instance);
        return RUN_FAILED;
    }
    ending.stats = options.stats;
    if (options.stats)
        run_stats_prepare(instance.dir);
    return run_child(places.program, options.command, finish, &ending);
}

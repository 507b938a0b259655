#include "cli/run.h"

#include "base/cleanup.h"
#include "base/setting.h"
#include "cli/commands.h"
#include "cli/layout.h"
#include "cli/message.h"
#include "cli/program.h"
#include "cli/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The paths of a run; "": not needed. */
struct places {
    char program[PATH_MAX], library[PATH_MAX], sim[PATH_MAX], nvml[PATH_MAX + 32], trace[PATH_MAX];
};

static int find_library(bool trace, char *ret_path, size_t size)
{
    const char *chosen = setting_text(SETTING_LIBRARY);
    int error = layout_library(trace, ret_path, size);

    if (error == -EINVAL)
        message_error("run: the library's path \"%s\" has a space or a colon in it, at which the "
                      "loader would cut it; install "
                      "vgpu elsewhere, or give a path without them in VGPU_LIBRARY",
                      ret_path);
    else if (error && chosen)
        message_error("run: VGPU_LIBRARY=%s cannot be read", ret_path);
    else if (error)
        message_error("run: %s is neither beside the vgpu command nor in ../%s; install it, or "
                      "give its path in VGPU_LIBRARY",
                      trace ? "libvgpu-trace.so" : "libvgpu.so", VGPU_LIBDIR);
    return error ? RUN_FAILED : RUN_GO_ON;
}

static int find_sim(struct places *places)
{
    int error = layout_sim(places->sim, sizeof(places->sim));

    if (error == -EINVAL)
        message_error("run: --sim: the path %s has a colon or a semicolon in it, at which the "
                      "loader would cut it",
                      places->sim);
    else if (error)
        message_error("run: --sim: the simulated driver sim/libcuda.so.1 is neither beside the "
                      "vgpu command nor in "
                      "../%s; build or "
                      "install it",
                      VGPU_LIBDIR);
    if (error)
        return RUN_FAILED;
    snprintf(places->nvml, sizeof(places->nvml), "%s/libnvidia-ml.so.1", places->sim);
    return RUN_GO_ON;
}

/* Makes the trace file, empties it, and makes its path absolute: COMMAND may change directories. */
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
    return RUN_GO_ON;
}

/* A user may type "--guard strict" for --guard=strict; the mode is then the command. */
static bool is_guard_mode(const struct run_options *options)
{
    const char *name = options->command[0];

    return options->guard == GUARD_ON && cli_word_index(CLI_GUARD_MODE, name) >= 0;
}

static int find_program(const struct run_options *options, char *ret_path, size_t size)
{
    const char *name = options->command[0];
    int error = program_find(name, ret_path, size);

    if (error == -ENOENT && is_guard_mode(options))
        message_error("run: \"%s\": not found in PATH (did you mean --guard=%s?)", name, name);
    else if (error == -ENOENT)
        message_error("run: \"%s\": not found%s", name, strchr(name, '/') ? "" : " in PATH");
    else if (error)
        message_error(
            "run: %s: cannot be executed (it is a directory, or the permission is missing)",
            ret_path);
    return !error ? RUN_GO_ON : error == -ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

/* Also decides about the guard: a run without it needs the library. */
static int find_places(struct run_options *options, struct places *places)
{
    int status = find_program(options, places->program, sizeof(places->program));

    if (status == RUN_GO_ON)
        status = run_guard_choose(options);
    if (status == RUN_GO_ON && run_preloads(options))
        status = find_library(options->trace != NULL, places->library, sizeof(places->library));
    if (status == RUN_GO_ON && options->sim)
        status = find_sim(places);
    if (status == RUN_GO_ON && options->trace)
        status = prepare_trace(options->trace, places->trace, sizeof(places->trace));
    return status;
}

/* Warns of limits that do not bind this program. False: vgpu cannot run it, and a message was
 * written. */
static bool examine_program(const struct run_options *options, const char *path)
{
    struct program_info info;
    const char *obstacle;

    program_examine(path, &info);
    if (options->guard != GUARD_OFF && info.binding == PROGRAM_32BIT) {
        message_error("run: %s is a 32-bit program: the guard refuses it, because it knows only "
                      "64-bit system calls",
                      info.file);
        return false;
    }
    if (options->guard != GUARD_OFF && info.binding == PROGRAM_PRIVILEGED)
        message_warning(
            "%s is setuid, setgid or has file capabilities: under the guard it runs without them",
            info.file);
    obstacle = run_preloads(options) ? program_obstacle(info.binding) : NULL;
    if (obstacle && options->guard == GUARD_OFF)
        message_warning(
            "%s %s, so the quota does not bind it (programs that it starts may be bound)%s",
            info.file, obstacle, info.binding == PROGRAM_32BIT ? "" : "; --guard does");
    else if (obstacle && info.binding != PROGRAM_PRIVILEGED)
        message_warning("%s %s, so it keeps the quota, which is the guard's, but no caps and "
                        "turns; without --preload "
                        "the guard keeps those too",
                        info.file, obstacle);
    return true;
}

static void tell_of_guard_around(const char *name)
{
    const char *outer = setting_text(SETTING_INSTANCE);
    const char *base = outer && strrchr(outer, '/') ? strrchr(outer, '/') + 1 : outer;

    if (outer && strcmp(base, name) && instance_is_guarded(outer))
        message_warning("this runs inside instance %s, which is under the guard; its limits hold "
                        "as well as those of "
                        "instance %s",
                        base, name);
}

struct ending {
    struct instance *instance;
    struct run_guard *guard;
    const char *trace;
    bool stats;
};

static int finish(void *argument, int result)
{
    struct ending *ending = argument;

    result = run_guard_end(ending->guard, ending->instance->name, result);
    if (*ending->trace && !run_trace_summary(ending->instance->dir, ending->trace) && result == 0)
        result = RUN_FAILED;
    if (ending->stats)
        run_stats_summary(ending->instance, ending->guard);
    instance_leave(ending->instance);
    return result;
}

/* Prepares the environment, the files in the instance's directory, and the guard. */
static bool prepare(const struct run_options *options, const struct places *places,
                    const struct instance *instance, struct run_guard *ret_guard)
{
    uint64_t group;

    if (options->trace && !run_trace_prepare(instance->dir))
        return false;
    if (!run_inside_group(instance->name, &group) ||
        !run_env(instance->dir, group, run_preloads(options) ? places->library : NULL,
                 options->trace ? places->trace : NULL, options->sim ? places->sim : NULL))
        return false;
    if (!run_inside_devices() || (!run_preloads(options) && !run_env_devices(&instance->limits)))
        return false;
    return run_guard_new(options, instance, ret_guard);
}

int command_run(char **argv)
{
    static struct places places;
    struct run_options options;
    struct instance_request request;
    struct instance instance;
    struct run_guard guard;
    struct ending ending = {.instance = &instance, .guard = &guard, .trace = places.trace};
    int status = run_options_take(argv, &options);

    if (status == RUN_GO_ON)
        status = find_places(&options, &places);
    if (status != RUN_GO_ON)
        return status;
    if (!examine_program(&options, places.program))
        return RUN_NOT_EXECUTABLE;
    if (!run_limits(&options, options.sim ? places.nvml : NULL, &request) ||
        !run_inside(&options, &request) || instance_enter(&request, &instance))
        return RUN_FAILED;
    if (options.sim)
        message_note("no GPU is involved: the driver is simulated (%s)", places.sim);
    tell_of_guard_around(instance.name);
    turns_report(&instance.limits);
    if (!prepare(&options, &places, &instance, &guard)) {
        instance_leave(&instance);
        return RUN_FAILED;
    }
    ending.stats = options.stats;
    if (options.stats)
        run_stats_prepare(instance.dir);
    return run_child(places.program, options.command, guard.guard, finish, &ending);
}

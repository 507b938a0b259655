/* vgpu pause and vgpu resume: stop and continue the GPU work of running instances. */
#include "cli/commands.h"

#include "base/err.h"
#include "base/parse.h"
#include "cli/folders.h"
#include "cli/instance.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/path.h"
#include "account/member.h"
#include "guard/notify/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct request {
    const char *command; /* "pause" or "resume", for messages */
    bool pause;
    const char *name;
    char dir[PATH_MAX];
    struct vgpu_region *region; /* NULL: not found yet */
    bool led;
    bool failed; /* a message has been written */
};

/* A folder_visit. The user's own instance goes before those of others, which must be unique. */
static bool look_in(void *arg, const char *folder, uid_t owner)
{
    struct request *request = arg;
    char dir[PATH_MAX], path[PATH_MAX], text[128];
    struct member_counts counts;
    int error;

    if (!path_join(dir, sizeof(dir), folder, request->name) || access(dir, F_OK) < 0 ||
        !instance_in_use(folder, request->name))
        return true;
    if (request->region) {
        message_error("%s: several users have an instance %s; choose one with VGPU_RUNTIME_DIR "
                      "(`vgpu ps --json` has "
                      "their directories)",
                      request->command, request->name);
        request->failed = true;
        return false;
    }
    error = path_join(path, sizeof(path), dir, INSTANCE_REGION)
                ? region_peek(path, 0, &request->region)
                : -ENAMETOOLONG;
    if (error) {
        message_error("%s: instance %s: %s cannot be opened: %s", request->command, request->name,
                      path,
                      error == -EPROTO ? "it is no region of this version of vgpu"
                                       : err_text(error, text, sizeof(text)));
        request->failed = true;
        return false;
    }
    member_count(dir, 1, &counts);
    request->led = counts.leaders > 0;
    memcpy(request->dir, dir, sizeof(dir));
    return owner != getuid();
}

/* Whether the instance can be paused or resumed. */
static bool check(const struct request *request)
{
    struct vgpu_limits limits;

    if (!request->region) {
        message_error("%s: no instance %s is running; `vgpu ps` lists those that are",
                      request->command, request->name);
        return false;
    }
    region_limits(request->region, &limits);
    if (limits.tier != VGPU_TIER_GUARD) {
        message_error("%s: instance %s is not under the guard, so it cannot be paused; "
                      "start it with `vgpu run --guard`",
                      request->command, request->name);
        return false;
    }
    if (request->pause && !request->led) {
        message_error("%s: instance %s cannot be paused: the `vgpu run` that had it under its "
                      "guard has ended, and "
                      "what has outlived it is not guarded",
                      request->command, request->name);
        return false;
    }
    return true;
}

/* The message for a refusal of the supervisor. */
static void complain(const struct request *request, int error)
{
    const char *command = request->command, *name = request->name;
    char text[128];

    switch (error) {
    case -EPERM:
        message_error(
            "%s: instance %s: a program under a guard cannot steer it; use a shell outside of it",
            command, name);
        break;
    case -EPROTO:
        message_error("%s: instance %s: a program under a guard seems to answer at %s/%s, not its "
                      "`vgpu run`; if that is "
                      "in another container, use a shell there",
                      command, name, request->dir, CONTROL_SOCKET);
        break;
    case -ESTALE:
        message_error("%s: instance %s: the socket of another instance is at %s/%s", command, name,
                      request->dir, CONTROL_SOCKET);
        break;
    case -EOPNOTSUPP:
        message_error("%s: instance %s cannot be paused: with --preload the library in its "
                      "programs keeps its caps and "
                      "turns; leave --preload out",
                      command, name);
        break;
    case -ETIMEDOUT:
        message_error(
            "%s: instance %s: its `vgpu run` has not answered for a second (is it stopped?)",
            command, name);
        break;
    case -ECONNREFUSED:
        message_error("%s: instance %s: its `vgpu run` cannot be reached at %s/%s", command, name,
                      request->dir, CONTROL_SOCKET);
        break;
    case -EIO:
        message_error(
            "%s: instance %s: its channels cannot be switched; its `vgpu run` has said why",
            command, name);
        break;
    default:
        message_error("%s: instance %s: %s", command, name, err_text(error, text, sizeof(text)));
        break;
    }
}

static bool carry_out(const struct request *request)
{
    int error =
        control_ask(request->dir, request->name, request->pause ? CONTROL_PAUSE : CONTROL_RESUME);

    /* Without a supervisor nothing stops the work. Trust only that: a program can remove the file
     * that shows a leader. */
    if (error == -ECONNREFUSED && !request->pause && !request->led)
        return true;
    if (error)
        complain(request, error);
    return error == 0;
}

static bool serve(const char *command, bool pause, const char *name)
{
    struct request request = {.command = command, .pause = pause, .name = name};
    bool good = folders_visit(command, look_in, &request) && !request.failed && check(&request) &&
                carry_out(&request);

    if (request.region)
        region_close(request.region);
    return good;
}

/* Whether there are names, all of them valid. */
static bool check_names(const char *command, char **names)
{
    for (char **name = names; *name; name++) {
        if (!parse_name_valid(*name)) {
            message_error("%s: \"%s\" is no name of an instance: a name has 1 to %d letters, "
                          "digits, '.', '_' or '-' and "
                          "begins with a letter or digit",
                          command, *name, VGPU_NAME_LEN - 1);
            return false;
        }
    }
    if (!*names)
        message_error("%s: no instance was named; `vgpu ps` lists those that are running", command);
    return *names != NULL;
}

static int command(char **argv, bool pause)
{
    char **names;
    int status;

    if (!options_parse(argv[0], argv, NULL, &names, &status))
        return status;
    if (!check_names(argv[0], names))
        return STATUS_USAGE;
    for (status = STATUS_OK; *names; names++)
        if (!serve(argv[0], pause, *names))
            status = STATUS_FAILED;
    return status;
}

int command_pause(char **argv)
{
    return command(argv, true);
}

int command_resume(char **argv)
{
    return command(argv, false);
}

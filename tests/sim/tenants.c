#include "tenants.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/prctl.h>

extern char **environ;

#define WORDS 32

static const char *tool(void)
{
    const char *program = getenv("TEST_INSTANCE_TOOL");

    CHECK(program != NULL);
    return program;
}

static const char *folder(const char *name)
{
    static char path[4096];

    if (!name)
        snprintf(path, sizeof path, "%s", getenv("TEST_INSTANCE"));
    else
        snprintf(path, sizeof path, "%s/run/instances/%s", getenv("TEST_WORK"), name);
    return path;
}

/* Words, separated by spaces; the text is changed, and kept. */
static unsigned split(char *text, char **ret_words, unsigned from)
{
    for (char *word = strtok(text, " "); word && from < WORDS; word = strtok(NULL, " "))
        ret_words[from++] = word;
    ret_words[from] = NULL;
    return from;
}

static void run_tool(const char *command, const char *name, const char *quota, const char *settings)
{
    char *text = strdup(settings),
         *words[WORDS + 1] = {(char *)tool(), (char *)command, (char *)folder(name)};
    unsigned count = 3;

    if (quota)
        words[count++] = (char *)quota;
    split(text, words, count);
    free(capture_output((const char *const *)words));
    free(text);
}

void tenant_make(const char *name, const char *settings)
{
    run_tool("create", name, "0", settings);
}

void tenant_set(const char *name, const char *settings)
{
    run_tool("set", name, NULL, settings);
}

void tenant_check_empty(const char *name)
{
    run_tool("check", name, NULL, "");
}

uint64_t tenant_number(const char *name, unsigned vdev, const char *key)
{
    const char *argv[] = {tool(), "show", folder(name), NULL};
    char *text = capture_output(argv), start[64], pattern[64];
    uint64_t number = 0;

    snprintf(start, sizeof start, "compute %u ", vdev);
    snprintf(pattern, sizeof pattern, " %s=", key);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, start, strlen(start)) && strstr(line, pattern))
            number = strtoull(strstr(line, pattern) + strlen(pattern), NULL, 10);
    free(text);
    return number;
}

static bool is_variable(const char *variable, const char *name)
{
    size_t length = strlen(name);

    return !strncmp(variable, name, length) && variable[length] == '=';
}

/* The environment, as a process of the instance has it. */
static char **environment(const char *name, char *instance, char *group, size_t bytes)
{
    size_t count = 0, kept = 0;

    while (environ[count])
        count++;
    char **variables = calloc(count + 3, sizeof *variables);
    CHECK(variables != NULL);
    for (size_t i = 0; i < count; i++)
        if (!name ||
            (!is_variable(environ[i], "VGPU_INSTANCE") && !is_variable(environ[i], "SIMGPU_GROUP")))
            variables[kept++] = environ[i];
    if (name) {
        snprintf(instance, bytes, "VGPU_INSTANCE=%s", folder(name));
        snprintf(group, bytes, "SIMGPU_GROUP=%s", name);
        variables[kept++] = instance;
        variables[kept] = group;
    }
    return variables;
}

pid_t tenant_start(const char *name, const char *format, ...)
{
    char text[1024], instance[4200], group[4200], *words[WORDS + 1] = {(char *)"simtest"};
    char **variables = environment(name, instance, group, sizeof group);
    pid_t pid = 0;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    split(text, words, 1);
    fflush(stdout);
    int error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, variables);
    if (error)
        FAIL("can't start %s: %s", words[1], strerror(error));
    free(variables);
    return pid;
}

void tenant_is_one(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void tenant_end(pid_t pid)
{
    CHECK(kill(pid, SIGTERM) == 0);
    wait_ok(pid);
}

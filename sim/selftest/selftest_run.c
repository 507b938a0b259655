/* Shared by the self-tests: runs cases in processes of their own. */
#include "selftest.h"
#include "abi/nvml.h"

#include <string.h>
#include <sys/wait.h>

void *begin(void)
{
    void *context;

    CHECK(cuInit(0) == 0);
    CHECK(cuCtxCreate_v2(&context, 0, 0) == 0);
    return context;
}

pid_t start(void (*function)(void))
{
    fflush(stdout);
    pid_t pid = fork();

    if (!pid) {
        function();
        fflush(stdout);
        _exit(0);
    }
    return pid;
}

int finish(pid_t pid)
{
    int status = -1;

    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void *new_stream(unsigned flags)
{
    void *stream;

    CHECK(cuStreamCreate(&stream, flags) == 0);
    return stream;
}

void *kernel(const char *name)
{
    void *module, *function;

    CHECK(cuModuleLoadData(&module, "image") == 0 &&
          cuModuleGetFunction(&function, module, name) == 0);
    return function;
}

void launch_busy(void *function, void *stream, uint64_t duration_ns)
{
    void *parameters[] = {&duration_ns};

    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == 0);
}

uint64_t used(void)
{
    nvmlMemory_t memory = {0};
    nvmlDevice_t device;

    CHECK(nvmlInit_v2() == 0 && nvmlDeviceGetHandleByIndex_v2(0, &device) == 0);
    CHECK(nvmlDeviceGetMemoryInfo(device, &memory) == 0);
    return memory.used;
}

uint64_t ledger(const char *line_start, const char *key)
{
    char path[4096], line[4096], wanted[64];
    uint64_t value = UINT64_MAX;
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);

    CHECK(length > 0);
    path[length] = 0;
    strcpy(strrchr(path, '/'), "/simctl ledger");
    FILE *out = popen(path, "r");
    CHECK(out);
    snprintf(wanted, sizeof(wanted), " %s=", key);
    while (fgets(line, sizeof(line), out)) {
        const char *found = strstr(line, wanted);
        if (found && !strncmp(line, line_start, strlen(line_start)))
            value = strtoull(found + strlen(wanted), NULL, 10);
    }
    pclose(out);
    return value;
}

int selftest_run(const struct selftest *cases, size_t count)
{
    const char *only = getenv("SELFTEST_ONLY");
    char path[64], lock[80];
    int failed = 0;

    for (size_t at = 0; at < count; at++) {
        if (only && strcmp(only, cases[at].name))
            continue;
        snprintf(path, sizeof(path), "/tmp/simgpu-selftest-%d-%zu", (int)getpid(), at);
        snprintf(lock, sizeof(lock), "%s.lock", path);
        setenv("SIMGPU_STATE", path, 1);
        int code = finish(start(cases[at].function));
        printf("%-14s %s\n", cases[at].name, code ? "FAILED" : "ok");
        failed += code != 0;
        unlink(path);
        unlink(lock);
    }
    return failed != 0;
}

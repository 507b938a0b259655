/* Registration, checks, processes and small helpers. The truth and the region are read in
 * truth.c. */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const struct test *tests;

void test_register(struct test *test)
{
    test->next = tests;
    tests = test;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    const char *name = strrchr(file, '/');
    fflush(stdout);
    flockfile(stderr);
    fprintf(stderr, "%s:%d: [%d] ", name ? name + 1 : file, line, (int)getpid());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    funlockfile(stderr);
    _exit(1);
}

CUcontext open_device(int ordinal)
{
    CUdevice device = -1;
    CUcontext context = NULL;
    driver_load();
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDeviceGet(&device, ordinal));
    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    CU_OK(cu.cuCtxSetCurrent(context));
    return context;
}

void close_device(int ordinal)
{
    CUdevice device = -1;
    CU_OK(cu.cuDeviceGet(&device, ordinal));
    CU_OK(cu.cuCtxSetCurrent(NULL));
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(device));
}

CUstream new_stream(void)
{
    CUstream stream = NULL;
    CU_OK(cu.cuStreamCreate(&stream, 1));
    return stream;
}

CUfunction new_kernel(const char *name, CUmodule *ret_module)
{
    CUfunction function = NULL;
    CU_OK(cu.cuModuleLoadData(ret_module, ".version 8.0\n.target sm_50\n"));
    CU_OK(cu.cuModuleGetFunction(&function, *ret_module, name));
    return function;
}

uint64_t quota_bytes(void)
{
    const char *text = getenv("TEST_QUOTA");
    return text ? strtoull(text, NULL, 10) : 0;
}

pid_t spawn_test(const char *name, const char *arg)
{
    pid_t pid = 0;
    char *argv[] = {(char *)"simtest", (char *)name, (char *)arg, NULL};
    fflush(stdout);
    int error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
    if (error)
        FAIL("can't start %s: %s", name, strerror(error));
    return pid;
}

int wait_status(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void wait_ok(pid_t pid)
{
    int status = wait_status(pid);
    if (status != 0)
        FAIL("process %d ended with %d", (int)pid, status);
}

void *shared_page(size_t bytes)
{
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void sleep_ms(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000L};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

unsigned open_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ".", ".." and the folder itself */
}

static bool drop_variable(const char *variable)
{
    return !strncmp(variable, "LD_PRELOAD=", 11) || !strncmp(variable, "VGPU_INSTANCE=", 14);
}

char *capture_output(const char *const argv[])
{
    int ends[2];
    pid_t pid = 0;
    size_t kept = 0, count = 0;
    posix_spawn_file_actions_t actions;
    while (environ[count])
        count++;
    char **plain = calloc(count + 1, sizeof *plain);
    CHECK(plain != NULL && pipe2(ends, O_CLOEXEC) == 0);
    for (size_t i = 0; i < count; i++)
        if (!drop_variable(environ[i]))
            plain[kept++] = environ[i];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, plain);
    if (error)
        FAIL("can't start %s: %s", argv[0], strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    free(plain);
    close(ends[1]);
    size_t length = 0, room = 65536;
    char *text = malloc(room);
    CHECK(text != NULL);
    for (ssize_t got; (got = read(ends[0], text + length, room - length - 1)) != 0;) {
        if (got < 0) {
            CHECK(errno == EINTR);
            continue;
        }
        length += (size_t)got;
        if (room - length < 4096) {
            room *= 2;
            text = realloc(text, room);
            CHECK(text != NULL);
        }
    }
    text[length] = '\0';
    close(ends[0]);
    int status = wait_status(pid);
    if (status != 0)
        FAIL("%s %s ended with %d: %s", argv[0], argv[1] ? argv[1] : "", status, text);
    return text;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state ? *state : 88172645463325252ULL;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 2685821657736338717ULL >> 16;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        for (const struct test *test = tests; test; test = test->next)
            if (!strcmp(test->name, argv[1]))
                return test->run(argc - 2, argv + 2);
    fprintf(stderr, "usage: simtest TEST [ARGS]\n");
    for (const struct test *test = tests; test; test = test->next)
        fprintf(stderr, "  %s\n", test->name);
    return 2;
}

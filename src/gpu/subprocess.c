#include "gpu/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(fd, data, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        data += written;
        size -= (size_t)written;
    }
}

static void run_body(void (*body)(void *), void *result, size_t size, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    memset(result, 0, size);
    body(result);
    write_all(out, result, size);
    _exit(0);
}

/* Reads until `size` bytes are there, the other end is closed or the time is up. */
static int read_result(int fd, char *result, size_t size, int64_t end_ms)
{
    size_t have = 0;

    while (have < size) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = end_ms - now_ms();
        ssize_t got;

        if (left_ms <= 0)
            return -ETIMEDOUT;
        if (poll(&ready, 1, (int)left_ms) <= 0)
            continue;
        got = read(fd, result + have, size - have);
        if (got == 0 || (got < 0 && errno != EINTR))
            return -EPIPE;
        if (got > 0)
            have += (size_t)got;
    }
    return 0;
}

int subprocess_run(void (*body)(void *), void *ret_result, size_t size, int limit_ms,
                   int *ret_signal)
{
    int ends[2], status = 0, result;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    child = fork();
    if (child < 0) {
        result = -errno;
        close(ends[0]);
        close(ends[1]);
        return result;
    }
    if (child == 0)
        run_body(body, ret_result, size, ends[1]);
    close(ends[1]);
    result = read_result(ends[0], ret_result, size, now_ms() + limit_ms);
    close(ends[0]);
    if (result)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (result == -EPIPE) {
        *ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        result = -ECANCELED;
    }
    return result;
}

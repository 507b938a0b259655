#include "attack.h"

#include "base/clock.h"

#include "base/passfd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t attack_number(int argc, char **argv, int index, uint64_t otherwise)
{
    char *end;
    uint64_t value;

    if (argc <= index)
        return otherwise;
    value = strtoull(argv[index], &end, 0);
    switch (*end) {
    case 'G':
        return value * GIB;
    case 'M':
        return value * MIB;
    case 'K':
        return value * KIB;
    }
    return value;
}

uint64_t attack_quota(void)
{
    const char *text = getenv("ATTACK_QUOTA");

    CHECK(text != NULL);
    return strtoull(text, NULL, 10);
}

struct fakerm_stats book(struct rmclient *client, uint32_t pid)
{
    struct fakerm_stats stats;

    CHECK_EQUAL(rmclient_stats(client, pid, &stats), 0);
    return stats;
}

void nap_ms(unsigned ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

int finish(int pid)
{
    int status, rc;

    do
        rc = waitpid(pid, &status, 0);
    while (rc < 0 && errno == EINTR);
    CHECK_EQUAL(rc, pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void attack_open(struct rmclient *ret_client)
{
    CHECK_EQUAL(rmclient_open(NULL, 0, ret_client), 0);
}

int attack_fork(void)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        CHECK_EQUAL(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    return child;
}

void attack_send_fd(int socket, int fd)
{
    CHECK_EQUAL(passfd_send(socket, fd), 0);
}

int attack_receive_fd(int socket)
{
    int fd = -1;

    CHECK_EQUAL(passfd_receive(socket, &fd), 0);
    return fd;
}

int attack_alloc(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    struct rm_memory_params params = {
        .owner = client->client, .attr = ATTR_4K, .size = bytes, .numa_node = -1};

    return rmclient_alloc(client, client->device, handle, RM_CLASS_MEMORY_LOCAL_USER, &params,
                          sizeof(params));
}

uint32_t attack_must_alloc(struct rmclient *client, uint64_t bytes)
{
    uint32_t handle = 0;

    CHECK_EQUAL(attack_alloc(client, bytes, &handle), 0);
    CHECK(handle != 0);
    return handle;
}

uint32_t attack_await_alloc(struct rmclient *client, uint64_t bytes)
{
    uint32_t handle = 0;

    for (unsigned i = 0; attack_alloc(client, bytes, &handle) != 0; i++) {
        CHECK(i < 6000);
        nap_ms(5);
    }
    return handle;
}

void attack_must_free(struct rmclient *client, uint32_t handle)
{
    CHECK_EQUAL(rmclient_free(client, handle), 0);
}

void attack_check_room(struct rmclient *client)
{
    uint64_t room = attack_quota() - book(client, 0).gpu_used;
    uint32_t all = 0, more = 0;

    CHECK(room <= attack_quota());
    if (room) {
        CHECK_EQUAL(attack_alloc(client, room + 1, &all), RM_ERR_NO_MEMORY);
        CHECK_EQUAL(attack_alloc(client, room, &all), 0);
    }
    CHECK_EQUAL(book(client, 0).gpu_used, attack_quota());
    CHECK_EQUAL(attack_alloc(client, 1, &more), RM_ERR_NO_MEMORY);
    if (room)
        attack_must_free(client, all);
}

void attack_await_used(struct rmclient *client, uint64_t bytes)
{
    for (int i = 0; i < 3000 && book(client, 0).gpu_used != bytes; i++)
        nap_ms(10);
    CHECK_EQUAL(book(client, 0).gpu_used, bytes);
}

uint32_t attack_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*state >> 33);
}

uint64_t attack_calls(const char *name)
{
    char path[512], line[4096];
    uint64_t value = UINT64_MAX;
    FILE *file;

    snprintf(path, sizeof(path), "%s/book", getenv("FAKERM_DIR"));
    file = fopen(path, "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file)) {
        char *at = strncmp(line, "calls", 5) == 0 ? strstr(line, name) : NULL;

        if (at)
            value = strtoull(at + strlen(name), NULL, 10);
    }
    fclose(file);
    CHECK(value != UINT64_MAX);
    return value;
}

#define CAPPED_NS   (3 * NS_PER_S)
#define CAPPED_MOST .4 /* without a cap it is all of it */
#define PATIENCE_MS 60000

void attack_check_capped(struct rmclient *client)
{
    struct fakerm_stats before, after;
    double part;

    rmclient_stats(client, 0, &before);
    after = before;
    for (unsigned i = 0; i < PATIENCE_MS && after.now_ns - before.now_ns < CAPPED_NS; i += 10) {
        nap_ms(10);
        rmclient_stats(client, 0, &after);
    }
    part =
        (double)(after.pid_busy_ns - before.pid_busy_ns) / (double)(after.now_ns - before.now_ns);
    fprintf(stderr, "the program gets %.3f of the card\n", part);
    CHECK(part > 0 && part < CAPPED_MOST);
}

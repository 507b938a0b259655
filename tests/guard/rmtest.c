/*
 * rmtest DIR COMMAND: a program that uses a GPU, by the driver's own calls. DIR: where nvidiactl is.
 *
 *   info                        total and free memory, as cuMemGetInfo has them
 *   fill [BLOCK [MOST]]         allocates blocks (64M) until one is refused; says how many bytes and with which status
 *   hold BYTES [SECONDS]        has that much; for ever without SECONDS. Says "holding"
 *   churn COUNT [BYTES]         allocates and frees
 *   work KERNEL_US COUNT        launches so many kernels at once and waits for the last; says how long it took
 *   sync KERNEL_US SECONDS      launches one after the other, each once the one before is over; says how many there
 * were queue KERNEL_US SECONDS     keeps four in the queue; says how many there were stats [PID]                 what
 * the fake driver's book has about a process (this one)
 *
 * GPU=N takes another one than the first. Ends with 1 where a call failed that should not.
 */
#include "rmclient.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1000ULL

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);

    switch (*end) {
    case 'G':
        return value << 30;
    case 'M':
        return value << 20;
    case 'K':
        return value << 10;
    }
    return value;
}

static uint64_t argument(int argc, char **argv, int index, uint64_t otherwise)
{
    return argc > index ? number(argv[index]) : otherwise;
}

static int say(int rc, const char *what)
{
    if (rc != 0)
        fprintf(stderr, "rmtest: %s: %s %#x\n", what, rc < 0 ? "errno" : "status", (unsigned)(rc < 0 ? -rc : rc));
    return rc != 0;
}

static int info(struct rmclient *client)
{
    uint64_t size, free_bytes;

    if (say(rmclient_fb_info(client, &size, &free_bytes), "FB_GET_INFO_V2"))
        return 1;
    printf("total %" PRIu64 " free %" PRIu64 "\n", size, free_bytes);
    return 0;
}

static int fill(struct rmclient *client, uint64_t block_bytes, uint64_t most_bytes)
{
    uint64_t total = 0, blocks = 0;
    int rc = 0;

    while (total + block_bytes <= most_bytes) {
        struct rmclient_block block;

        rc = rmclient_malloc(client, block_bytes, &block);
        if (rc != 0)
            break;
        total += block.bytes;
        blocks++;
    }
    printf("filled %" PRIu64 " blocks %" PRIu64 " status %#x\n", total, blocks, (unsigned)rc);
    return rc < 0;
}

static int hold(struct rmclient *client, uint64_t bytes, uint64_t seconds)
{
    struct rmclient_block block;

    if (say(rmclient_malloc(client, bytes, &block), "malloc"))
        return 1;
    printf("holding %" PRIu64 "\n", block.bytes);
    fflush(stdout);
    for (uint64_t i = 0; i < seconds; i++)
        sleep(1);
    return 0;
}

static int churn(struct rmclient *client, uint64_t count, uint64_t bytes)
{
    uint64_t begin_ns = clock_ns();

    for (uint64_t i = 0; i < count; i++) {
        struct rmclient_block block;

        if (say(rmclient_malloc(client, bytes, &block), "malloc") || say(rmclient_mfree(client, &block), "free"))
            return 1;
    }
    printf("churned %" PRIu64 " ns_each %" PRIu64 "\n", count, count ? (clock_ns() - begin_ns) / count : 0);
    return 0;
}

static int work(struct rmclient *client, uint64_t kernel_ns, uint64_t count)
{
    uint32_t group, channel;
    uint64_t begin_ns;

    if (say(rmclient_compute(client, 1, &group, &channel), "channels"))
        return 1;
    begin_ns = clock_ns();
    if (say(rmclient_submit(client, channel, kernel_ns, count), "submit") ||
        say(rmclient_wait(client, channel), "wait"))
        return 1;
    printf("worked %" PRIu64 " kernels %" PRIu64 " elapsed_ns %" PRIu64 "\n", kernel_ns * count, count,
           clock_ns() - begin_ns);
    return 0;
}

/* Always so many kernels in the queue, each on a channel of its own; with one, the next comes when it is over. */
static int spin(struct rmclient *client, uint64_t kernel_ns, uint64_t seconds, unsigned ahead)
{
    uint32_t group, channels[4];
    uint64_t begin_ns, elapsed_ns, kernels = 0;

    if (say(rmclient_compute(client, ahead, &group, channels), "channels"))
        return 1;
    begin_ns = clock_ns();
    for (unsigned i = 0; ahead > 1 && i < ahead; i++)
        if (say(rmclient_submit(client, channels[i], kernel_ns, 1), "submit"))
            return 1;
    do {
        uint32_t channel = channels[kernels % ahead];

        if (ahead == 1 && say(rmclient_run(client, channel, kernel_ns, 1), "run"))
            return 1;
        if (ahead > 1 && (say(rmclient_wait(client, channel), "wait") ||
                          say(rmclient_submit(client, channel, kernel_ns, 1), "submit")))
            return 1;
        kernels++;
        elapsed_ns = clock_ns() - begin_ns;
    } while (elapsed_ns < seconds * NS_PER_S);
    printf("kernels %" PRIu64 " busy_ns %" PRIu64 " elapsed_ns %" PRIu64 " share %.4f\n", kernels, kernels * kernel_ns,
           elapsed_ns, (double)(kernels * kernel_ns) / (double)elapsed_ns);
    return 0;
}

static int stats(struct rmclient *client, uint32_t pid)
{
    struct fakerm_stats book;

    if (say(rmclient_stats(client, pid, &book), "stats"))
        return 1;
    printf("pid %u bytes %" PRIu64 " peak %" PRIu64 " busy_ns %" PRIu64 " gpu_used %" PRIu64 " gpu_peak %" PRIu64
           " nobody %" PRIu64 " allocations %" PRIu64 " biggest %" PRIu64 " last_allocation_pid %u disabled %u\n",
           book.pid, book.pid_bytes, book.pid_peak, book.pid_busy_ns, book.gpu_used, book.gpu_peak, book.nobody,
           book.allocations, book.biggest, book.last_allocation_pid, book.channels_disabled);
    return 0;
}

int main(int argc, char **argv)
{
    const char *gpu = getenv("GPU"), *command = argc > 2 ? argv[2] : "";
    struct rmclient client;

    if (argc < 3) {
        fprintf(stderr, "usage: rmtest DIR info|fill|hold|churn|work|sync|queue|stats [ARGS]\n");
        return 2;
    }
    if (say(rmclient_open(argv[1], gpu ? (unsigned)atoi(gpu) : 0, &client), argv[1]))
        return 1;
    if (strcmp(command, "info") == 0)
        return info(&client);
    if (strcmp(command, "fill") == 0)
        return fill(&client, argument(argc, argv, 3, 64ULL << 20), argument(argc, argv, 4, UINT64_MAX));
    if (strcmp(command, "hold") == 0)
        return hold(&client, argument(argc, argv, 3, 64ULL << 20), argument(argc, argv, 4, UINT64_MAX));
    if (strcmp(command, "churn") == 0)
        return churn(&client, argument(argc, argv, 3, 1000), argument(argc, argv, 4, 1ULL << 20));
    if (strcmp(command, "work") == 0)
        return work(&client, argument(argc, argv, 3, 1000) * NS_PER_US, argument(argc, argv, 4, 1));
    if (strcmp(command, "sync") == 0)
        return spin(&client, argument(argc, argv, 3, 1000) * NS_PER_US, argument(argc, argv, 4, 1), 1);
    if (strcmp(command, "queue") == 0)
        return spin(&client, argument(argc, argv, 3, 1000) * NS_PER_US, argument(argc, argv, 4, 1), 4);
    if (strcmp(command, "stats") == 0)
        return stats(&client, (uint32_t)argument(argc, argv, 3, 0));
    fprintf(stderr, "rmtest: no command %s\n", command);
    return 2;
}

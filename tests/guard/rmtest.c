/*
 * rmtest DIR COMMAND: a program that uses a GPU, by the driver's own calls. DIR: where nvidiactl
 * is.
 *
 *   info                        total and free memory, as cuMemGetInfo has them
 *   fill [BLOCK [MOST]]         allocates blocks (64M) until one is refused; says how many bytes
 *                               and with which status
 *   hold BYTES [SECONDS]        has that much; for ever without SECONDS. Says "holding"
 *   churn COUNT [BYTES]         allocates and frees
 *   work KERNEL_US COUNT        launches so many kernels at once and waits for the last; says how
 *                               long it took
 *   sync KERNEL_US SECONDS      launches one after the other, each once the one before is over;
 *                               says how many
 *   queue KERNEL_US SECONDS     the same with always four in the queue
 *   rest KERNEL_US REST_US COUNT  the same with a rest after each
 *   slice SLICE_US KERNEL_US COUNT  as work, with a time slice of its own choice
 *   reset KERNEL_US COUNT       as work, and sets the counts of its context back all the time
 *   again KERNEL_US COUNT       as work, and schedules its channel again all the time
 *   unsub KERNEL_US COUNT       as work, and frees its subdevice meanwhile. Says "freed"
 *   hide KERNEL_US COUNT        as work, with its control device nowhere but in a socket, until a
 *                               line comes on stdin. Says "hidden" and "received"
 *   stats [PID]                 what the fake driver's book has about a process (this one)
 *   share SECONDS PID...        which part of the device's time each of the processes gets, by the
 *                               fake's clock
 *
 * GPU=N takes another one than the first. START_MS=N: channels are scheduled so long after they
 * were made, and others of its work meanwhile; with START_LINE not before a line comes on stdin,
 * and then it says "scheduled": START_LINE=group by their group, duplicate, foreign by a duplicate
 * of that in the same client, in another one of the process's (by the group where the driver does
 * not let it). Ends with 1 where a call failed that should not.
 */
#include "rmclient.h"

#include "base/clock.h"
#include "base/passfd.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
        fprintf(stderr, "rmtest: %s: %s %#x\n", what, rc < 0 ? "errno" : "status",
                (unsigned)(rc < 0 ? -rc : rc));
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

        if (say(rmclient_malloc(client, bytes, &block), "malloc") ||
            say(rmclient_mfree(client, &block), "free"))
            return 1;
    }
    printf("churned %" PRIu64 " ns_each %" PRIu64 "\n", count,
           count ? (clock_ns() - begin_ns) / count : 0);
    return 0;
}

static void say_now(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void await_line(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
        continue;
}

/* The status, or -errno. */
static int schedule_by_duplicate(struct rmclient *client, uint32_t group, bool foreign)
{
    struct rmclient other = *client;
    uint32_t duplicate = 0;
    int rc = foreign ? rmclient_open(client->dir, client->gpu, &other) : 0;

    if (rc == 0)
        rc = rmclient_dup(&other, client->client, group, &duplicate);
    return rc ? rc : rmclient_schedule(&other, duplicate, true);
}

static int schedule_at_line(struct rmclient *client, uint32_t group, const char *how)
{
    bool by_group = strcmp(how, "group") == 0;
    int rc = 0;

    await_line();
    if (!by_group) {
        rc = schedule_by_duplicate(client, group, strcmp(how, "foreign") == 0);
        printf("by a duplicate: %#x\n", (unsigned)rc);
    }
    if (by_group || rc != 0)
        rc = rmclient_schedule(client, group, true);
    if (rc == 0)
        say_now("scheduled");
    return rc;
}

#define OWN_HANDLES 0x5c300000u

static int make_channels(struct rmclient *client, unsigned count, uint32_t *ret_group,
                         uint32_t *ret_channels)
{
    const char *text = getenv("START_MS"), *how = getenv("START_LINE");
    uint64_t start_ms = text ? number(text) : 0;
    uint32_t handle = OWN_HANDLES, group, channel;
    int rc;

    if (start_ms == 0)
        return rmclient_compute(client, count, ret_group, ret_channels);
    *ret_group = handle;
    rc = rmclient_compute(client, 1, &group, &channel);
    if (rc == 0)
        rc = rmclient_submit(client, channel, 1000 * NS_PER_US, start_ms);
    if (rc == 0)
        rc = rmclient_group(client, ret_group);
    for (unsigned i = 0; i < count && rc == 0; i++) {
        ret_channels[i] = ++handle;
        rc = rmclient_channel(client, *ret_group, &ret_channels[i]);
    }
    usleep((useconds_t)start_ms * 1000);
    if (rc)
        return rc;
    return how ? schedule_at_line(client, *ret_group, how)
               : rmclient_schedule(client, *ret_group, true);
}

struct resetting {
    struct rmclient *client;
    uint32_t group;
    bool schedules; /* it is scheduled again, instead */
    atomic_bool over;
    uint64_t count;
};

static void *reset_all_the_time(void *arg)
{
    struct resetting *resetting = arg;
    struct rm_ctxsw_stats counts;

    while (!atomic_load(&resetting->over) &&
           !say(resetting->schedules
                    ? rmclient_schedule(resetting->client, resetting->group, true)
                    : rmclient_ctxsw(resetting->client, resetting->group, true, &counts),
                "all the time"))
        resetting->count++;
    return NULL;
}

/* slice_us: 0: as it is. */
static int work(struct rmclient *client, uint64_t slice_us, uint64_t kernel_ns, uint64_t count)
{
    uint32_t group, channel;
    uint64_t begin_ns;

    if (say(make_channels(client, 1, &group, &channel), "channels") ||
        (slice_us && say(rmclient_set_slice(client, group, slice_us), "slice")))
        return 1;
    begin_ns = clock_ns();
    if (say(rmclient_submit(client, channel, kernel_ns, count), "submit") ||
        say(rmclient_wait(client, channel), "wait"))
        return 1;
    printf("worked %" PRIu64 " kernels %" PRIu64 " elapsed_ns %" PRIu64 "\n", kernel_ns * count,
           count, clock_ns() - begin_ns);
    return 0;
}

static int work_and_reset(struct rmclient *client, bool schedules, uint64_t kernel_ns,
                          uint64_t count)
{
    struct resetting resetting = {.client = client, .schedules = schedules};
    uint32_t channel;
    pthread_t thread;
    int failed;

    if (say(make_channels(client, 1, &resetting.group, &channel), "channels") ||
        say(-pthread_create(&thread, NULL, reset_all_the_time, &resetting), "thread"))
        return 1;
    failed = say(rmclient_submit(client, channel, kernel_ns, count), "submit") ||
             say(rmclient_wait(client, channel), "wait");
    atomic_store(&resetting.over, true);
    pthread_join(thread, NULL);
    printf("worked %" PRIu64 " resets %" PRIu64 "\n", kernel_ns * count, resetting.count);
    return failed;
}

static int begin_work(struct rmclient *client, uint64_t kernel_ns, uint64_t count,
                      uint32_t *ret_channel)
{
    uint32_t group;

    return say(make_channels(client, 1, &group, ret_channel), "channels") ||
           say(rmclient_submit(client, *ret_channel, kernel_ns, count), "submit");
}

static int end_work(struct rmclient *client, uint32_t channel, uint64_t work_ns)
{
    if (say(rmclient_wait(client, channel), "wait"))
        return 1;
    printf("worked %" PRIu64 "\n", work_ns);
    return 0;
}

/* Those who switch channels do it by way of a subdevice. */
static int work_without_subdevice(struct rmclient *client, uint64_t kernel_ns, uint64_t count)
{
    uint32_t channel;

    if (begin_work(client, kernel_ns, count, &channel) ||
        say(rmclient_free(client, client->subdevice), "free"))
        return 1;
    say_now("freed");
    return end_work(client, channel, kernel_ns * count);
}

static int work_hidden(struct rmclient *client, uint64_t kernel_ns, uint64_t count)
{
    uint64_t size, free_bytes;
    uint32_t channel;
    int pair[2];

    if (begin_work(client, kernel_ns, count, &channel) ||
        say(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair") ||
        say(passfd_send(pair[0], client->ctl), "send"))
        return 1;
    close(client->ctl);
    say_now("hidden");
    await_line();
    if (say(passfd_receive(pair[1], &client->ctl), "receive") ||
        say(rmclient_fb_info(client, &size, &free_bytes), "FB_GET_INFO_V2"))
        return 1;
    say_now("received");
    return end_work(client, channel, kernel_ns * count);
}

static int rest(struct rmclient *client, uint64_t kernel_ns, uint64_t rest_ns, uint64_t count)
{
    uint32_t group, channel;

    if (say(make_channels(client, 1, &group, &channel), "channels"))
        return 1;
    for (uint64_t i = 0; i < count; i++) {
        if (say(rmclient_run(client, channel, kernel_ns, 1), "run"))
            return 1;
        nanosleep(&(struct timespec){(time_t)(rest_ns / NS_PER_S), (long)(rest_ns % NS_PER_S)},
                  NULL);
    }
    return 0;
}

/* Always so many kernels in the queue, each on a channel of its own; with one, the next comes when
 * it is over. */
static int spin(struct rmclient *client, uint64_t kernel_ns, uint64_t seconds, unsigned ahead)
{
    uint32_t group, channels[4];
    uint64_t begin_ns, elapsed_ns, kernels = 0;

    if (say(make_channels(client, ahead, &group, channels), "channels"))
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
    printf("kernels %" PRIu64 " busy_ns %" PRIu64 " elapsed_ns %" PRIu64 " share %.4f\n", kernels,
           kernels * kernel_ns, elapsed_ns, (double)(kernels * kernel_ns) / (double)elapsed_ns);
    return 0;
}

static int stats(struct rmclient *client, uint32_t pid)
{
    struct fakerm_stats book;

    if (say(rmclient_stats(client, pid, &book), "stats"))
        return 1;
    printf("pid %u bytes %" PRIu64 " peak %" PRIu64 " busy_ns %" PRIu64 " gpu_used %" PRIu64
           " gpu_peak %" PRIu64 " nobody %" PRIu64 " allocations %" PRIu64 " biggest %" PRIu64
           " last_allocation_pid %u disabled %u wedged %u\n",
           book.pid, book.pid_bytes, book.pid_peak, book.pid_busy_ns, book.gpu_used, book.gpu_peak,
           book.nobody, book.allocations, book.biggest, book.last_allocation_pid,
           book.channels_disabled, book.wedged);
    return 0;
}

static int share(struct rmclient *client, uint64_t seconds, unsigned count, char **pids)
{
    struct fakerm_stats before[16], after;

    if (count > sizeof(before) / sizeof(before[0]))
        return 1;
    for (unsigned i = 0; i < count; i++)
        if (say(rmclient_stats(client, (uint32_t)number(pids[i]), &before[i]), "stats"))
            return 1;
    sleep((unsigned)seconds);
    for (unsigned i = 0; i < count; i++) {
        if (say(rmclient_stats(client, (uint32_t)number(pids[i]), &after), "stats"))
            return 1;
        printf("%s%.3f", i ? " " : "",
               (double)(after.pid_busy_ns - before[i].pid_busy_ns) /
                   (double)(after.now_ns - before[i].now_ns));
    }
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    const char *gpu = getenv("GPU"), *command = argc > 2 ? argv[2] : "";
    struct rmclient client;

    if (argc < 3) {
        fprintf(stderr, "usage: rmtest DIR "
                        "info|fill|hold|churn|work|sync|queue|rest|slice|reset|unsub|hide|stats|"
                        "share [ARGS]\n");
        return 2;
    }
    if (say(rmclient_open(argv[1], gpu ? (unsigned)atoi(gpu) : 0, &client), argv[1]))
        return 1;
    if (strcmp(command, "info") == 0)
        return info(&client);
    if (strcmp(command, "fill") == 0)
        return fill(&client, argument(argc, argv, 3, 64ULL << 20),
                    argument(argc, argv, 4, UINT64_MAX));
    if (strcmp(command, "hold") == 0)
        return hold(&client, argument(argc, argv, 3, 64ULL << 20),
                    argument(argc, argv, 4, UINT64_MAX));
    if (strcmp(command, "churn") == 0)
        return churn(&client, argument(argc, argv, 3, 1000), argument(argc, argv, 4, 1ULL << 20));
    if (strcmp(command, "work") == 0)
        return work(&client, 0, argument(argc, argv, 3, 1000) * NS_PER_US,
                    argument(argc, argv, 4, 1));
    if (strcmp(command, "slice") == 0)
        return work(&client, argument(argc, argv, 3, 2000),
                    argument(argc, argv, 4, 1000) * NS_PER_US, argument(argc, argv, 5, 1));
    if (strcmp(command, "reset") == 0 || strcmp(command, "again") == 0)
        return work_and_reset(&client, strcmp(command, "again") == 0,
                              argument(argc, argv, 3, 1000) * NS_PER_US,
                              argument(argc, argv, 4, 1));
    if (strcmp(command, "unsub") == 0)
        return work_without_subdevice(&client, argument(argc, argv, 3, 1000) * NS_PER_US,
                                      argument(argc, argv, 4, 1));
    if (strcmp(command, "hide") == 0)
        return work_hidden(&client, argument(argc, argv, 3, 1000) * NS_PER_US,
                           argument(argc, argv, 4, 1));
    if (strcmp(command, "rest") == 0)
        return rest(&client, argument(argc, argv, 3, 1000) * NS_PER_US,
                    argument(argc, argv, 4, 1000) * NS_PER_US, argument(argc, argv, 5, 1));
    if (strcmp(command, "share") == 0)
        return share(&client, argument(argc, argv, 3, 1), argc > 4 ? (unsigned)argc - 4 : 0,
                     argv + 4);
    if (strcmp(command, "sync") == 0)
        return spin(&client, argument(argc, argv, 3, 1000) * NS_PER_US, argument(argc, argv, 4, 1),
                    1);
    if (strcmp(command, "queue") == 0)
        return spin(&client, argument(argc, argv, 3, 1000) * NS_PER_US, argument(argc, argv, 4, 1),
                    4);
    if (strcmp(command, "stats") == 0)
        return stats(&client, (uint32_t)argument(argc, argv, 3, 0));
    fprintf(stderr, "rmtest: no command %s\n", command);
    return 2;
}

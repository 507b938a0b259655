/*
 * Open files of the driver, in programs that close them without a call, keep or lose them by exec,
 * inherit them, send them, keep them in a thread's own table, or put one in another's place. The
 * memory is charged for as long as the driver has it, whoever frees it.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 5000

static struct rmclient judge; /* stays open throughout */

/* There is room for a page, sooner or later: files that were closed are found by looking. */
static void check_gone(void)
{
    attack_must_free(&judge, attack_await_alloc(&judge, PAGE));
    attack_await_used(&judge, 0);
    attack_check_room(&judge);
}

static void check_held(void)
{
    uint32_t handle = 0;

    CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota());
    CHECK_EQUAL(attack_alloc(&judge, PAGE, &handle), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota());
}

static void check_close(void)
{
    struct rmclient client;

    for (unsigned i = 0; i < 20; i++) {
        attack_open(&client);
        attack_must_alloc(&client, attack_quota());
        check_held();
        rmclient_close(&client);
        check_gone();
    }
}

/* A descriptor more: closing one of them changes nothing. */
static void check_duplicate(void)
{
    struct rmclient client;
    int first;

    attack_open(&client);
    attack_must_alloc(&client, attack_quota());
    first = client.ctl;
    client.ctl = fcntl(first, F_DUPFD_CLOEXEC, 700);
    CHECK_EQUAL(client.ctl, 700);
    close(first);
    check_held();
    CHECK_EQUAL(rmclient_free_root(&client), 0);
    check_gone();
    rmclient_close(&client);
}

/*
 * exec. The new program is this one, with the file, its client and memory in its arguments; the
 * first program's judge is the second's no more.
 */
static void become(struct rmclient *client, uint32_t memory, bool keep)
{
    char fd[16], number[16], handle[16];

    snprintf(fd, sizeof(fd), "%d", client->ctl);
    snprintf(number, sizeof(number), "%u", client->client);
    snprintf(handle, sizeof(handle), "%u", memory);
    CHECK_EQUAL(fcntl(client->ctl, F_SETFD, keep ? 0 : FD_CLOEXEC), 0);
    execl("/proc/self/exe", "attack_files", keep ? "kept" : "lost", fd, number, handle, NULL);
    CHECK(false);
}

static void check_exec(bool keep)
{
    pid_t child = fork();

    if (child == 0) {
        struct rmclient client;

        attack_open(&client);
        become(&client, attack_must_alloc(&client, attack_quota()), keep);
    }
    CHECK_EQUAL(finish(child), 0);
    check_gone();
}

static int go_on(const char *what, char **argv)
{
    struct rmclient client = {.ctl = atoi(argv[2]), .client = (uint32_t)strtoul(argv[3], NULL, 10)};
    uint32_t memory = (uint32_t)strtoul(argv[4], NULL, 10);

    attack_open(&judge);
    if (strcmp(what, "lost") == 0) {
        check_gone();
        return 0;
    }
    check_held();
    CHECK_EQUAL(rmclient_free(&client, memory), 0);
    check_gone();
    attack_must_alloc(&judge, attack_quota());
    return 0;
}

/* The child frees what its parent has, and gets memory in its parent's name. */
static void check_fork(void)
{
    struct rmclient client;
    uint32_t memory;
    pid_t child;

    attack_open(&client);
    memory = attack_must_alloc(&client, attack_quota());
    child = fork();
    if (child == 0) {
        uint32_t mine = 0x1001;

        attack_must_free(&client, memory);
        attack_check_room(&client);
        CHECK_EQUAL(attack_alloc(&client, attack_quota(), &mine), 0);
        _exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    check_held();
    CHECK_EQUAL(book(&client, 0).pid_bytes, attack_quota());
    nap_ms(1500); /* the watch thread has looked */
    check_held();
    attack_must_free(&client, 0x1001);
    check_gone();
    rmclient_close(&client);
}

/* The parent has made client and memory, and dies; the child goes on. */
static void check_orphan(bool known)
{
    int ends[2];
    char byte = 0;
    pid_t parent;

    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    parent = fork();
    if (parent == 0) {
        struct rmclient client;
        uint32_t memory;
        pid_t me = getpid();

        attack_open(&client);
        memory = attack_must_alloc(&client, attack_quota());
        if (fork() == 0) {
            if (known) { /* the guard has seen it use the file */
                uint32_t more = 0;

                CHECK_EQUAL(attack_alloc(&client, PAGE, &more), RM_ERR_NO_MEMORY);
            }
            while (getppid() == me)
                nap_ms(1);
            nap_ms(1200);
            check_held();
            attack_must_free(&client, memory);
            attack_check_room(&client);
            CHECK_EQUAL(attack_alloc(&client, attack_quota(), &memory), 0);
            check_held();
            CHECK_EQUAL(write(ends[1], &byte, 1), 1);
            _exit(0);
        }
        nap_ms(known ? 100 : 0);
        _exit(0);
    }
    CHECK_EQUAL(finish(parent), 0);
    CHECK_EQUAL(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    check_gone();
}

/* To a sibling, which goes on with it when the sender is gone. */
static void check_sent(void)
{
    int sockets[2], numbers[2];
    pid_t sender, receiver;

    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    CHECK_EQUAL(pipe2(numbers, O_CLOEXEC), 0);
    sender = fork();
    if (sender == 0) {
        struct rmclient client;
        uint32_t memory;

        attack_open(&client);
        memory = attack_must_alloc(&client, attack_quota());
        CHECK_EQUAL(write(numbers[1], &client, sizeof(client)), sizeof(client));
        CHECK_EQUAL(write(numbers[1], &memory, sizeof(memory)), sizeof(memory));
        attack_send_fd(sockets[0], client.ctl);
        _exit(0);
    }
    receiver = fork();
    if (receiver == 0) {
        struct rmclient client;
        uint32_t memory;
        int fd = attack_receive_fd(sockets[1]);

        CHECK_EQUAL(read(numbers[0], &client, sizeof(client)), sizeof(client));
        CHECK_EQUAL(read(numbers[0], &memory, sizeof(memory)), sizeof(memory));
        client.ctl = fd;
        nap_ms(1500);
        check_held();
        attack_must_free(&client, memory);
        attack_check_room(&client);
        attack_must_alloc(&client, attack_quota());
        _exit(0);
    }
    CHECK_EQUAL(finish(sender), 0);
    CHECK_EQUAL(finish(receiver), 0);
    for (unsigned i = 0; i < 2; i++) {
        close(sockets[i]);
        close(numbers[i]);
    }
    check_gone();
}

/* A thread whose descriptors are its own: the same number is another file for the others. */
static void *alone(void *arg)
{
    struct rmclient client;
    int *number = arg, ctl;

    CHECK_EQUAL(unshare(CLONE_FILES), 0);
    attack_open(&client);
    ctl = client.ctl;
    CHECK_EQUAL(dup2(ctl, *number), *number);
    client.ctl = *number;
    attack_must_alloc(&client, attack_quota() - PAGE);
    CHECK_EQUAL(book(&client, 0).gpu_used, attack_quota() - PAGE);
    attack_check_room(&client);
    nap_ms(1200);
    attack_check_room(&client);
    CHECK_EQUAL(rmclient_free_root(&client), 0);
    attack_check_room(&judge);
    return NULL;
}

static void check_thread(void)
{
    int number = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct rm_free call = {0};
    pthread_t thread;

    CHECK_EQUAL(pthread_create(&thread, NULL, alone, &number), 0);
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQUAL(rmclient_call(number, RM_ESC_FREE, sizeof(call), &call), -ENOTTY);
    pthread_join(thread, NULL);
    close(number);
    check_gone();
}

struct swap {
    int number, files[3];
    atomic_bool over;
};

static void *swap_files(void *arg)
{
    struct swap *swapped = arg;

    for (unsigned i = 0; !atomic_load_explicit(&swapped->over, memory_order_relaxed); i++)
        dup2(swapped->files[i % 3], swapped->number);
    return NULL;
}

/* Now it is a client's file, now another's, now none of the driver's: who is not this file's gets
 * nothing by it. */
static void check_swap(void)
{
    struct rmclient first, second;
    struct swap swapped = {.number = 700};
    uint64_t done = 0, not_driver = 0, not_client = 0;
    pthread_t thread;

    attack_open(&first);
    attack_open(&second);
    attack_must_alloc(&second, attack_quota() / 4);
    swapped.files[0] = first.ctl;
    swapped.files[1] = second.ctl;
    swapped.files[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(dup2(first.ctl, 700), 700);
    CHECK_EQUAL(pthread_create(&thread, NULL, swap_files, &swapped), 0);
    first.ctl = 700;
    for (unsigned i = 0; i < TRIES || !done || !not_driver || !not_client; i++) {
        uint32_t handle = 0x1001;
        int rc = attack_alloc(&first, attack_quota() / 2 + PAGE, &handle);

        CHECK(i < 100 * TRIES);
        CHECK(rc == 0 || rc == -ENOTTY || rc > 0);
        CHECK(book(&judge, 0).gpu_used <= attack_quota());
        done += rc == 0;
        not_driver += rc == -ENOTTY;
        not_client += rc > 0;
        if (rc == 0)
            CHECK_EQUAL(
                rmclient_free(&(struct rmclient){.ctl = swapped.files[0], .client = first.client},
                              0x1001),
                0);
    }
    atomic_store(&swapped.over, true);
    pthread_join(thread, NULL);
    fprintf(stderr, "swapped: %llu done, %llu no driver, %llu another client's\n",
            (unsigned long long)done, (unsigned long long)not_driver,
            (unsigned long long)not_client);
    CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota() / 4);
    attack_check_room(&second);
    close(700);
    for (unsigned i = 0; i < 3; i++)
        close(swapped.files[i]);
    check_gone();
}

/* Many at once, and one after the other: none of them is left over with the guard. */
static void check_many(void)
{
    struct rmclient clients[40];
    const unsigned count = sizeof(clients) / sizeof(clients[0]);

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < count; i++) {
            attack_open(&clients[i]);
            attack_must_alloc(&clients[i], attack_quota() / count / PAGE * PAGE);
        }
        for (unsigned i = 0; i < count; i++)
            rmclient_close(&clients[(i * 7) % count]);
        check_gone();
    }
}

static void check_execs(void)
{
    check_exec(false);
    check_exec(true);
}

static void check_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    check_orphan(true);
    check_orphan(false);
    while (wait(NULL) > 0)
        continue;
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"close", check_close}, {"duplicate", check_duplicate}, {"fork", check_fork},
    {"sent", check_sent},   {"exec", check_execs},          {"orphan", check_orphans},
    {"many", check_many},   {"thread", check_thread},       {"swap", check_swap},
};

/* attack_files [CHECK] */
int main(int argc, char **argv)
{
    if (argc > 4)
        return go_on(argv[1], argv);
    attack_open(&judge);
    for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (argc > 1 && strcmp(argv[1], checks[i].name) != 0)
            continue;
        fprintf(stderr, "%s\n", checks[i].name);
        checks[i].check();
    }
    rmclient_close(&judge);
    return 0;
}

/*
 * An open file of the driver that no descriptor of its process shows: sent and not yet received,
 * mapped, in the table of one thread, in a process whose first thread has ended, or registered with
 * io_uring. What the driver keeps for the file must stay charged.
 *
 *   attack_hold WAY      with the whole quota; exits with 77 if the kernel has no such way
 */
#include "attack.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIP 77
#define BASE 0x500000000000ULL

static struct rmclient hidden;
static uint32_t memory;
static uint64_t whole; /* that it has */
static sem_t hid, done;

/* What is in the way of others: for a second or so, so that the guard looks at files meanwhile. */
static void check_held(void)
{
    struct rmclient other;

    attack_open(&other);
    for (unsigned i = 0; i < 24; i++) {
        uint32_t handle = 0;

        CHECK_EQUAL(attack_alloc(&other, PAGE, &handle), RM_ERR_NO_MEMORY);
        CHECK_EQUAL(book(&other, 0).gpu_used, whole);
        nap_ms(50);
    }
    rmclient_close(&other);
}

static void check_gone(void)
{
    struct rmclient other;

    attack_open(&other);
    attack_must_free(&other, attack_await_alloc(&other, PAGE));
    attack_await_used(&other, 0);
    attack_check_room(&other);
    rmclient_close(&other);
}

static void begin(void)
{
    attack_open(&hidden);
    memory = attack_must_alloc(&hidden, whole);
}

/* In a message that nobody receives. */
static int by_flight(void)
{
    int sockets[2];

    begin();
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    attack_send_fd(sockets[0], hidden.ctl);
    close(hidden.ctl);
    check_held();
    close(sockets[0]);
    close(sockets[1]);
    check_gone();
    return 0;
}

/* A UVM space, which alone has the memory. It is charged for as long as the process lives. */
static void begin_mapped(void)
{
    begin();
    CHECK_EQUAL(rmclient_uvm_range(&hidden, BASE, whole), 0);
    CHECK_EQUAL(rmclient_uvm_map(&hidden, BASE, whole, 0, memory), 0);
    attack_must_free(&hidden, memory);
}

static void in_uvm_flight(void)
{
    int sockets[2];

    begin_mapped();
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    attack_send_fd(sockets[0], hidden.uvm);
    close(hidden.uvm);
    check_held();
}

/* By a mapping of it, which outlives the descriptor. */
static void in_mapping(void)
{
    whole -= PAGE; /* the mapping is charged, too */
    begin_mapped();
    CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, hidden.uvm, (off_t)(64 * MIB)) !=
          MAP_FAILED);
    close(hidden.uvm);
    check_held();
}

static int in_child(void (*hide)(void))
{
    pid_t child = attack_fork();

    if (child == 0) {
        hide();
        _exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    check_gone();
    return 0;
}

static int by_uvm_flight(void)
{
    return in_child(in_uvm_flight);
}

static int by_mapping(void)
{
    return in_child(in_mapping);
}

static int by_control_mapping(void)
{
    void *page;

    begin();
    page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, hidden.ctl, 0);
    CHECK(page != MAP_FAILED);
    close(hidden.ctl);
    check_held();
    munmap(page, 4096);
    check_gone();
    return 0;
}

static void *take_along(void *arg)
{
    (void)arg;
    CHECK_EQUAL(unshare(CLONE_FILES), 0);
    CHECK_EQUAL(sem_post(&hid), 0);
    sem_wait(&done);
    CHECK_EQUAL(rmclient_free(&hidden, memory), 0);
    return NULL;
}

/* In the table of another thread. */
static int by_thread(void)
{
    pthread_t thread;

    begin();
    CHECK_EQUAL(pthread_create(&thread, NULL, take_along, NULL), 0);
    sem_wait(&hid);
    close(hidden.ctl);
    check_held();
    sem_post(&done);
    pthread_join(thread, NULL);
    check_gone();
    return 0;
}

static void *go_on(void *leader)
{
    pthread_join(*(pthread_t *)leader, NULL);
    check_held();
    attack_must_free(&hidden, memory);
    check_gone();
    exit(0);
}

/* Of a process whose first thread has ended: its folder in /proc shows no descriptors. */
static int by_leader(void)
{
    static pthread_t leader;
    pthread_t thread;

    begin();
    leader = pthread_self();
    CHECK_EQUAL(pthread_create(&thread, NULL, go_on, &leader), 0);
    pthread_exit(NULL);
}

/* Registered, and closed. */
static int by_ring(void)
{
    struct io_uring_params params = {0};
    int ring;

    begin();
    ring = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring < 0 ||
        syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &hidden.ctl, 1) < 0) {
        fprintf(stderr, "skip: no io_uring\n");
        return SKIP;
    }
    close(hidden.ctl);
    check_held();
    close(ring);
    check_gone();
    return 0;
}

/* In a process that never calls the driver. */
static int by_process(void)
{
    int ends[2];
    char byte;
    pid_t child;

    begin();
    CHECK_EQUAL(pipe(ends), 0);
    child = attack_fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    close(hidden.ctl);
    check_held();
    close(ends[1]);
    CHECK_EQUAL(finish(child), 0);
    check_gone();
    return 0;
}

static const struct {
    const char *name;
    int (*hide)(void);
} ways[] = {
    {"flight", by_flight},   {"uvm_flight", by_uvm_flight},
    {"mapping", by_mapping}, {"control_mapping", by_control_mapping},
    {"thread", by_thread},   {"leader", by_leader},
    {"ring", by_ring},       {"process", by_process},
};

int main(int argc, char **argv)
{
    whole = attack_quota();
    sem_init(&hid, 0, 0);
    sem_init(&done, 0, 0);
    for (unsigned i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(argv[1], ways[i].name) == 0)
            return ways[i].hide();
    }
    return 2;
}

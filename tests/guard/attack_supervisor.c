/*
 * The supervisor is killed at any moment. From then on the tenant's calls fail, nothing new is
 * allocated, and nothing of the guard is left. This program starts `vgpu run` itself.
 *
 *   attack_supervisor [ROUNDS]
 */
#include "attack.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUOTA      "1G"
#define BOUND_MS   20000
#define CHILDS_MAX 8

/* The tenant. */

static void *churn(void *arg)
{
    struct rmclient *client = arg;
    int rc = 0;

    while (rc >= 0) {
        uint32_t memory = 0;

        rc = attack_alloc(client, MIB, &memory);
        if (rc == 0)
            rc = rmclient_free(client, memory);
    }
    CHECK_EQUAL(rc, -ENOSYS);
    return NULL;
}

/* Every way there is. */
static void check_closed(struct rmclient *client, uint32_t memory)
{
    struct rm_memory_params params = {.attr = ATTR_4K, .size = PAGE};
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = RM_HEAP_ALLOC_SIZE};
    uint32_t handle = 0, other = 0;

    CHECK_EQUAL(attack_alloc(client, PAGE, &handle), -ENOSYS);
    CHECK_EQUAL(rmclient_alloc_short(client, client->device, &handle, RM_CLASS_MEMORY_LOCAL_USER,
                                     &params, 0),
                -ENOSYS);
    CHECK_EQUAL(rmclient_alloc_xfer(client, client->device, &handle, RM_CLASS_MEMORY_LOCAL_USER,
                                    &params, 0),
                -ENOSYS);
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap), -ENOSYS);
    CHECK_EQUAL(rmclient_dup(client, client->client, memory, &handle), -ENOSYS);
    CHECK_EQUAL(rmclient_free(client, memory), -ENOSYS);
    CHECK_EQUAL(rmclient_root(client->ctl, &other), -ENOSYS);
    CHECK_EQUAL(rmclient_uvm_map(client, 0x500000000000ULL, PAGE, 0, memory), -ENOSYS);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client->uvm, (off_t)(64 * MIB)) ==
          MAP_FAILED);
    CHECK_EQUAL(errno, ENOSYS);
}

static int tenant(int told)
{
    struct rmclient client;
    uint32_t memory;
    uint64_t used;
    pthread_t thread;
    char byte = 0;

    attack_open(&client);
    memory = attack_must_alloc(&client, 64 * MIB);
    CHECK_EQUAL(rmclient_uvm_range(&client, 0x500000000000ULL, PAGE), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, churn, &client), 0);
    CHECK_EQUAL(write(told, &byte, 1), 1);
    churn(&client);
    pthread_join(thread, NULL);
    used = book(&client, 0).allocations;
    check_closed(&client, memory);
    nap_ms(20);
    check_closed(&client, memory);
    CHECK_EQUAL(book(&client, 0).allocations, used);
    CHECK_EQUAL(write(told, &byte, 1), 1);
    return 0;
}

/* Outside. */

static unsigned children_of(pid_t pid, pid_t ret_children[CHILDS_MAX])
{
    char path[64];
    unsigned count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "re");
    CHECK(file != NULL);
    while (count < CHILDS_MAX && fscanf(file, "%d", &ret_children[count]) == 1)
        count++;
    fclose(file);
    return count;
}

static pid_t start(const char *self, int told)
{
    char vgpu[512], number[16];
    pid_t pid = fork();

    if (pid)
        return pid;
    snprintf(vgpu, sizeof(vgpu), "%s/vgpu", getenv("TEST_BUILD"));
    snprintf(number, sizeof(number), "%d", told);
    setenv("VGPU_GUARD_DEV", getenv("FAKERM_DIR"), 1);
    execl(vgpu, "vgpu", "run", "--guard", "--mem", QUOTA, "--", self, "tenant", number, NULL);
    _exit(127);
}

static void hear(int told)
{
    struct pollfd heard = {.fd = told, .events = POLLIN};
    char byte;

    CHECK_EQUAL(poll(&heard, 1, BOUND_MS), 1);
    CHECK_EQUAL(read(told, &byte, 1), 1);
}

/* Children of who was killed are ours now. */
static void check_ended(pid_t pid)
{
    for (unsigned i = 0; waitpid(pid, NULL, __WALL | WNOHANG) != pid; i++) {
        CHECK(i < BOUND_MS);
        nap_ms(1);
    }
}

static void round_of(const char *self, struct rmclient *judge, uint64_t *random)
{
    pid_t children[CHILDS_MAX], vgpu;
    unsigned count;
    int told[2];

    CHECK_EQUAL(pipe(told), 0);
    vgpu = start(self, told[1]);
    close(told[1]);
    hear(told[0]);
    count = children_of(vgpu, children);
    CHECK(count >= 2); /* the command, the keeper and whom else it may have */
    nap_ms(attack_random(random) % 30);
    CHECK_EQUAL(kill(vgpu, SIGKILL), 0);
    CHECK_EQUAL(finish(vgpu), 1000 + SIGKILL);
    hear(told[0]);
    for (unsigned i = 0; i < count; i++)
        check_ended(children[i]);
    close(told[0]);
    attack_await_used(judge, 0);
}

int main(int argc, char **argv)
{
    uint64_t rounds = attack_number(argc, argv, 1, 30), random = 1;
    struct rmclient judge;

    if (argc > 2 && strcmp(argv[1], "tenant") == 0)
        return tenant(atoi(argv[2]));
    CHECK_EQUAL(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    attack_open(&judge);
    for (uint64_t i = 0; i < rounds; i++)
        round_of(argv[0], &judge, &random);
    rmclient_close(&judge);
    return 0;
}

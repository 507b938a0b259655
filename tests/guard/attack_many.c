/*
 * Many processes of one instance allocate at once. Together they get exactly the quota, to the
 * page, and again what one of them frees.
 *
 *   attack_many [PROCESSES]      other instances may use the GPU meanwhile
 */
#include "attack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST  200
#define BLOCK MIB

struct common {
    pthread_barrier_t barrier;
    uint64_t bytes[MOST];
};

static struct common *common;
static struct rmclient judge;

static uint64_t fill(struct rmclient *client, uint64_t block)
{
    uint64_t bytes = 0;
    int rc;

    for (;;) {
        uint32_t handle = 0;

        rc = attack_alloc(client, block, &handle);
        if (rc != 0)
            break;
        bytes += block;
    }
    CHECK_EQUAL(rc, RM_ERR_NO_MEMORY);
    return bytes;
}

static void one_of_many(unsigned index)
{
    struct rmclient client;

    attack_open(&client);
    pthread_barrier_wait(&common->barrier);
    common->bytes[index] = fill(&client, BLOCK);
    common->bytes[index] += fill(&client, PAGE);
    CHECK_EQUAL(book(&client, 0).pid_bytes, common->bytes[index]);
    pthread_barrier_wait(&common->barrier);
    pause();
}

static uint64_t sum(const pid_t *children, unsigned count)
{
    uint64_t held = 0, said = 0;

    for (unsigned i = 0; i < count; i++) {
        held += book(&judge, (uint32_t)children[i]).pid_bytes;
        said += common->bytes[i];
    }
    CHECK_EQUAL(held, said);
    return held;
}

static void make_common(unsigned count)
{
    pthread_barrierattr_t attributes;

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common != MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    CHECK_EQUAL(pthread_barrier_init(&common->barrier, &attributes, count + 1), 0);
}

/* What it had is to be had, sooner or later, and not a page more. */
static void take_over(uint64_t bytes)
{
    uint32_t handle = 0, more = 0;

    for (unsigned i = 0; bytes && attack_alloc(&judge, bytes, &handle) != 0; i++) {
        CHECK(i < 3000);
        nap_ms(1);
    }
    CHECK_EQUAL(attack_alloc(&judge, PAGE, &more), RM_ERR_NO_MEMORY);
    if (handle)
        attack_must_free(&judge, handle);
}

int main(int argc, char **argv)
{
    unsigned count = (unsigned)attack_number(argc, argv, 1, 100);
    pid_t children[MOST];
    uint64_t gone = 0;

    CHECK(count > 0 && count <= MOST);
    make_common(count);
    for (unsigned i = 0; i < count; i++) {
        children[i] = attack_fork();
        if (children[i] == 0)
            one_of_many(i);
    }
    attack_open(&judge);
    pthread_barrier_wait(&common->barrier);
    pthread_barrier_wait(&common->barrier);
    CHECK_EQUAL(sum(children, count), attack_quota());
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQUAL(kill(children[i], SIGKILL), 0);
        CHECK_EQUAL(finish(children[i]), 1000 + SIGKILL);
        gone += common->bytes[i];
        if (i % 10 == 0 || i == count - 1)
            take_over(gone);
    }
    rmclient_close(&judge);
    return 0;
}

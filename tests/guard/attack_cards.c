/*
 * The driver makes a device only for a process that has the card's node open. The guard makes that
 * call for the program, and must not reach more cards than the program can. Needs two GPUs.
 */
#include "attack.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static struct rmclient client; /* of no GPU yet */

typedef int allocate(struct rmclient *client, uint32_t parent, uint32_t *handle, uint32_t class_id,
                     void *params, uint32_t params_bytes);

static allocate *const ways[] = {rmclient_alloc, rmclient_alloc_short, rmclient_alloc_xfer};

/* In every way in which a device can be asked for. */
static void check_device(uint32_t gpu, uint32_t status)
{
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        uint32_t device[14] = {gpu}, handle = 0;

        CHECK_EQUAL(
            ways[i](&client, client.client, &handle, RM_CLASS_DEVICE, device, sizeof(device)),
            status);
        CHECK_EQUAL(handle != 0, status == RM_OK);
        if (handle)
            attack_must_free(&client, handle);
    }
}

static int open_card(const char *name)
{
    int card = rmclient_open_file(NULL, name);

    CHECK(card >= 0);
    return card;
}

/* What one has had open, and what was lent of it, is of no use afterwards. */
static void check_open(void)
{
    int first, second;

    check_device(0, RM_ERR_INSUFFICIENT_PERMISSIONS);
    first = open_card("nvidia0");
    check_device(0, RM_OK);
    check_device(1, RM_ERR_INSUFFICIENT_PERMISSIONS);
    second = open_card("nvidia1");
    check_device(0, RM_OK);
    check_device(1, RM_OK);
    close(first);
    check_device(0, RM_ERR_INSUFFICIENT_PERMISSIONS);
    check_device(1, RM_OK);
    close(second);
    check_device(1, RM_ERR_INSUFFICIENT_PERMISSIONS);
}

/* That another process has it open is of no use either. */
static void check_other(void)
{
    int card = open_card("nvidia0");
    pid_t child;

    check_device(0, RM_OK);
    child = attack_fork();
    if (child == 0) {
        check_device(0, RM_OK);
        close(card);
        check_device(0, RM_ERR_INSUFFICIENT_PERMISSIONS);
        _exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    check_device(0, RM_OK);
    close(card);
}

/* A thread whose descriptors are its own: it has what the others have not. */
static void *alone(void *arg)
{
    CHECK_EQUAL(unshare(CLONE_FILES), 0);
    open_card("nvidia0");
    check_device(0, RM_OK);
    return arg;
}

static void check_thread(void)
{
    pthread_t thread;

    CHECK_EQUAL(pthread_create(&thread, NULL, alone, NULL), 0);
    pthread_join(thread, NULL);
    check_device(0, RM_ERR_INSUFFICIENT_PERMISSIONS);
}

/* Most of them are of the same card. */
static void check_many(void)
{
    int cards[500], last;

    for (unsigned i = 0; i < sizeof(cards) / sizeof(cards[0]); i++)
        cards[i] = open_card("nvidia0");
    last = open_card("nvidia1");
    check_device(0, RM_OK);
    check_device(1, RM_OK);
    for (unsigned i = 0; i < sizeof(cards) / sizeof(cards[0]); i++)
        close(cards[i]);
    check_device(0, RM_ERR_INSUFFICIENT_PERMISSIONS);
    close(last);
}

int main(void)
{
    client.ctl = rmclient_open_file(NULL, "nvidiactl");
    client.uvm = client.card = -1;
    CHECK(client.ctl >= 0);
    CHECK_EQUAL(rmclient_root(client.ctl, &client.client), 0);
    check_open();
    check_other();
    check_thread();
    check_many();
    attack_open(&client);
    attack_check_room(&client);
    rmclient_close(&client);
    return 0;
}

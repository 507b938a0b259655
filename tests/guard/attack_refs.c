/*
 * References to one piece of memory, as large as the quota: its first handle, duplicates in other
 * clients, and a UVM mapping. They are made and ended in every order, and end in every way. The
 * memory is charged until the last reference has ended, and no longer.
 *
 *   attack_refs [EACH]      only every EACHth order
 */
#include "attack.h"

#include <string.h>
#include <unistd.h>

#define HOLDERS 3 /* clients, each of a file of its own: one allocates, the others duplicate */
#define MAP     HOLDERS
#define THINGS  (HOLDERS + 1)
#define STEPS   (2 * THINGS - 1) /* the allocation comes first */
#define BASE    0x500000000000ULL

struct play {
    struct rmclient client[HOLDERS];
    uint32_t memory[HOLDERS];
    bool made[THINGS], ended[THINGS];
    uint64_t random, each, orders, plays, steps;
};

static struct rmclient judge; /* tries whether there is room, and reads the book */

static bool any_left(const struct play *play)
{
    for (unsigned i = 0; i < THINGS; i++) {
        if (play->made[i] && !play->ended[i])
            return true;
    }
    return false;
}

static unsigned first_handle(const struct play *play)
{
    unsigned i = 0;

    while (i < HOLDERS && !(play->made[i] && !play->ended[i]))
        i++;
    return i;
}

/* UVM maps for the process what any of its clients has. */
static void make(struct play *play, unsigned thing)
{
    unsigned source = first_handle(play);
    struct rmclient *from = &play->client[source];

    CHECK(source < HOLDERS);
    if (thing == MAP) {
        CHECK_EQUAL(rmclient_uvm_range(from, BASE, attack_quota()), 0);
        CHECK_EQUAL(rmclient_uvm_map(from, BASE, attack_quota(), 0, play->memory[source]), 0);
        judge.uvm = from->uvm;
        from->uvm = -1;
    } else {
        play->memory[thing] = 0;
        CHECK_EQUAL(rmclient_dup(&play->client[thing], from->client, play->memory[source],
                                 &play->memory[thing]),
                    0);
    }
    play->made[thing] = true;
}

/* (A file of UVM's that is closed is told by the end of its process only: see attack_uvm.c.) */
static void end_map(unsigned way)
{
    if (way % 2 == 0)
        CHECK_EQUAL(rmclient_uvm_unmap(&judge, BASE, attack_quota()), 0);
    else
        CHECK_EQUAL(rmclient_uvm_free(&judge, BASE, attack_quota()), 0);
    close(judge.uvm);
    judge.uvm = -1;
}

static void end(struct play *play, unsigned thing, unsigned way)
{
    struct rmclient *client = &play->client[thing];

    play->ended[thing] = true;
    if (thing == MAP) {
        end_map(way);
        return;
    }
    switch (way % 5) {
    case 0:
        CHECK_EQUAL(rmclient_free(client, play->memory[thing]), 0);
        break;
    case 1:
        CHECK_EQUAL(rmclient_heap_free(client, play->memory[thing]), 0);
        break;
    case 2:
        CHECK_EQUAL(rmclient_free(client, client->device), 0);
        break;
    case 3:
        CHECK_EQUAL(rmclient_free_root(client), 0);
        break;
    default:
        close(client->ctl);
        client->ctl = -1;
        break;
    }
}

/* What is gone with a closed file is found by looking. */
static void check(struct play *play)
{
    uint32_t handle = 0;

    if (any_left(play)) {
        CHECK_EQUAL(attack_alloc(&judge, PAGE, &handle), RM_ERR_NO_MEMORY);
        CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota());
    } else {
        attack_must_free(&judge, attack_await_alloc(&judge, PAGE));
        attack_await_used(&judge, 0);
    }
    play->steps++;
}

/* A step is a thing: at its first time it is made, at its second it ends. */
static void run(struct play *play, const unsigned *steps)
{
    memset(play->made, 0, sizeof(play->made));
    memset(play->ended, 0, sizeof(play->ended));
    for (unsigned i = 0; i < HOLDERS; i++)
        attack_open(&play->client[i]);
    play->memory[0] = attack_must_alloc(&play->client[0], attack_quota());
    play->made[0] = true;
    for (unsigned i = 0; i < STEPS; i++) {
        if (play->made[steps[i]])
            end(play, steps[i], attack_random(&play->random));
        else
            make(play, steps[i]);
        check(play);
    }
    for (unsigned i = 0; i < HOLDERS; i++) {
        if (play->client[i].ctl >= 0)
            rmclient_close(&play->client[i]);
    }
    play->plays++;
}

/* Whether the driver could take the steps so far: a duplicate or mapping needs a handle that is
 * there. */
static bool possible(const unsigned *steps, unsigned count)
{
    bool made[THINGS] = {true}, ended[THINGS] = {false};

    for (unsigned i = 0; i < count; i++) {
        bool handle = false;

        for (unsigned k = 0; k < HOLDERS; k++)
            handle |= made[k] && !ended[k];
        if (ended[steps[i]] || (!made[steps[i]] && !handle))
            return false;
        if (made[steps[i]])
            ended[steps[i]] = true;
        made[steps[i]] = true;
    }
    return true;
}

static void each_order(struct play *play, unsigned *steps, unsigned count)
{
    if (!possible(steps, count))
        return;
    if (count == STEPS) {
        if (play->orders++ % play->each == 0)
            run(play, steps);
        return;
    }
    for (steps[count] = 0; steps[count] < THINGS; steps[count]++)
        each_order(play, steps, count + 1);
}

int main(int argc, char **argv)
{
    static struct play play = {.random = 1};
    unsigned steps[STEPS];

    play.each = attack_number(argc, argv, 1, 1);
    attack_open(&judge);
    each_order(&play, steps, 0);
    fprintf(stderr, "%llu orders, %llu steps\n", (unsigned long long)play.plays,
            (unsigned long long)play.steps);
    CHECK(play.orders > 100 && play.plays >= play.orders / play.each);
    attack_check_room(&judge);
    return 0;
}

/*
 * A process maps another process's memory by UVM, which takes that one's client and handle as
 * numbers that anybody can guess. The driver lets only the client's process map it. So must the
 * supervisor, where it makes the mappings (VGPU_GUARD_MAP).
 */
#include "attack.h"

#include <fcntl.h>
#include <unistd.h>

#define BASE  0x500000000000ULL
#define BLOCK (64 * MIB)

static struct rmclient client;
static uint32_t memory;

/* The status of mapping what is the parent's, in a space of `own`'s. */
static int map_of_parent(struct rmclient own)
{
    own.client = client.client;
    return rmclient_uvm_map(&own, BASE, BLOCK, 0, memory);
}

static void map_own(struct rmclient *own)
{
    uint32_t mine = attack_must_alloc(own, BLOCK);

    CHECK_EQUAL(rmclient_uvm_map(own, BASE, BLOCK, 0, mine), 0);
    CHECK_EQUAL(rmclient_uvm_unmap(own, BASE, BLOCK), 0);
    attack_must_free(own, mine);
}

/* It has files of its own. */
static void as_stranger(void)
{
    struct rmclient own;

    attack_open(&own);
    CHECK_EQUAL(rmclient_uvm_range(&own, BASE, BLOCK), 0);
    map_own(&own);
    CHECK_EQUAL(map_of_parent(own), RM_ERR_INSUFFICIENT_PERMISSIONS);
    own.ctl = -1; /* of which file the client is the call does not have to say */
    CHECK_EQUAL(map_of_parent(own), RM_ERR_INSUFFICIENT_PERMISSIONS);
}

/* It has the parent's control device; a client that it makes by way of that is its own. */
static void as_heir(void)
{
    struct rmclient own;

    CHECK_EQUAL(rmclient_attach(NULL, client.ctl, 0, &own), 0);
    CHECK_EQUAL(rmclient_uvm_range(&own, BASE, BLOCK), 0);
    CHECK_EQUAL(map_of_parent(own), RM_ERR_INSUFFICIENT_PERMISSIONS);
    map_own(&own);
}

/* It has the parent's space as well, with a range of the parent's. */
static void as_heir_of_space(void)
{
    CHECK_EQUAL(map_of_parent(client), RM_ERR_INSUFFICIENT_PERMISSIONS);
}

static void in_child(const char *name, void (*act)(void))
{
    pid_t child;

    fprintf(stderr, "%s\n", name);
    child = attack_fork();
    if (child == 0) {
        act();
        _exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, BLOCK);
}

/* The other way round: what a child has made by way of the parent's control device is not the
 * parent's. */
static void check_of_child(void)
{
    struct rmclient of_child = client;
    int told[2], over[2];
    uint32_t words[2]; /* client and memory */
    pid_t child;

    fprintf(stderr, "what is the heir's\n");
    CHECK_EQUAL(pipe2(told, O_CLOEXEC), 0);
    CHECK_EQUAL(pipe2(over, O_CLOEXEC), 0);
    child = attack_fork();
    if (child == 0) {
        struct rmclient own;

        close(over[1]);
        CHECK_EQUAL(rmclient_attach(NULL, client.ctl, 0, &own), 0);
        words[0] = own.client;
        words[1] = attack_must_alloc(&own, BLOCK);
        CHECK_EQUAL(write(told[1], words, sizeof(words)), sizeof(words));
        CHECK_EQUAL(read(over[0], words, 1), 0);
        attack_must_free(&own, words[1]);
        _exit(0);
    }
    CHECK_EQUAL(read(told[0], words, sizeof(words)), sizeof(words));
    of_child.client = words[0];
    CHECK_EQUAL(rmclient_uvm_map(&of_child, BASE, BLOCK, 0, words[1]),
                RM_ERR_INSUFFICIENT_PERMISSIONS);
    close(over[1]);
    CHECK_EQUAL(finish(child), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, BLOCK);
}

int main(void)
{
    attack_open(&client);
    memory = attack_must_alloc(&client, BLOCK);
    in_child("stranger", as_stranger);
    in_child("heir", as_heir);
    CHECK_EQUAL(rmclient_uvm_range(&client, BASE, BLOCK), 0);
    in_child("heir of the space", as_heir_of_space);
    check_of_child();
    CHECK_EQUAL(rmclient_uvm_map(&client, BASE, BLOCK, 0, memory), 0);
    in_child("heir of what is mapped", as_heir_of_space);
    attack_must_free(&client, memory);
    CHECK_EQUAL(book(&client, 0).gpu_used, BLOCK);
    CHECK_EQUAL(rmclient_uvm_free(&client, BASE, BLOCK), 0);
    attack_check_room(&client);
    rmclient_close(&client);
    return 0;
}

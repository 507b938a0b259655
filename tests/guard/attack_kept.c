/*
 * A program maps memory by UVM, frees it, maps the UVM device and closes that. The mapping keeps
 * the device's file, and the file keeps UVM's duplicate, as in attack_hold.c. Here the guard has
 * last seen the file in use by an address space that is gone.
 *
 *   attack_kept exec [TIMES]     the program's own address space, which exec has replaced
 *   attack_kept first [TIMES]    a child's, which used the file first, and has ended
 *
 * It then tries to hold TIMES times the quota.
 */
#include "attack.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE 0x500000000000ULL

/* What is mapped of the device is charged, too. */
static uint64_t block(void)
{
    return attack_quota() - MIB;
}

static void hide(struct rmclient *client, bool child_is_first)
{
    uint32_t memory = attack_must_alloc(client, block());
    int uvm;

    client->uvm = -1;
    CHECK_EQUAL(rmclient_uvm_open(client), 0);
    uvm = client->uvm;
    if (child_is_first) {
        if (fork() == 0) {
            rmclient_uvm_free(client, BASE, block());
            _exit(0);
        }
        CHECK(wait(NULL) > 0);
        nap_ms(1500);
    }
    CHECK_EQUAL(rmclient_uvm_range(client, BASE, block()), 0);
    CHECK_EQUAL(rmclient_uvm_map(client, BASE, block(), 0, memory), 0);
    CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, uvm, (off_t)(64 * MIB)) !=
          MAP_FAILED);
    CHECK_EQUAL(close(uvm), 0);
    attack_must_free(client, memory);
}

int main(int argc, char **argv)
{
    struct rmclient client;
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t times = attack_number(argc, argv, 2, 2);
    uint32_t more = 0;

    attack_open(&client);
    if (strcmp(what, "exec") == 0) {
        char *again[] = {argv[0], "again", argc > 2 ? argv[2] : "2", NULL};

        attack_must_free(&client, attack_must_alloc(&client, PAGE));
        rmclient_close(&client);
        execv("/proc/self/exe", again);
        return 1;
    }
    for (uint64_t i = 0; i < times; i++) {
        hide(&client, strcmp(what, "first") == 0);
        for (unsigned k = 0; k < 40 && attack_alloc(&client, block(), &more) != 0; k++)
            nap_ms(100);
        if (more == 0)
            break;
        attack_must_free(&client, more);
        more = 0;
    }
    attack_alloc(&client, block(), &more);
    fprintf(stderr, "holds %llu MiB of a quota of %llu\n",
            (unsigned long long)(book(&client, 0).gpu_used / MIB),
            (unsigned long long)(attack_quota() / MIB));
    nap_ms(3000);
    return book(&client, 0).gpu_used > attack_quota() ? 3 : 0;
}

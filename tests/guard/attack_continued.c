/*
 * The guard lets some calls continue in the program, so the driver reads their arguments again.
 * Here the program has changed them by then: the allocation of a client becomes one of video
 * memory, which nobody has charged. The guard cannot prevent this, and must find it.
 *
 *   attack_continued WAY     gets memory and holds it, until it is killed or for some seconds
 *     root
 *     behind       beside as much charged memory that no process is said to hold
 */
#include "attack.h"

#include <string.h>

#define BLOCK   (64 * MIB)
#define BASE    0x500000000000ULL
#define HOLD_MS 4000

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    struct rmclient client;
    uint32_t all;

    attack_open(&client);
    all = attack_must_alloc(&client, attack_quota());
    if (strcmp(way, "behind") == 0) {
        CHECK_EQUAL(rmclient_uvm_range(&client, BASE, attack_quota()), 0);
        CHECK_EQUAL(rmclient_uvm_map(&client, BASE, attack_quota(), 0, all), 0);
        attack_must_free(&client, all);
        CHECK_EQUAL(book(&client, 0).pid_bytes, 0);
    }
    attack_around(&client, BLOCK);
    nap_ms(HOLD_MS);
    return 0;
}

/*
 * Memory behind an address on the fabric (class 0xf8, NV_MEMORY_FABRIC). The driver duplicates the
 * memory into an internal client, where it outlives its handle. A program can map the new object
 * like the memory itself.
 */
#include "attack.h"

#include <unistd.h>

#define BASE 0x500000000000ULL

int main(void)
{
    struct rm_fabric_params params = {
        .alignment = 2 * MIB, .size = attack_quota(), .page_bytes = 2 * MIB};
    struct rmclient client;
    uint32_t memory, again = 0, fabric = 0;

    attack_open(&client);
    CHECK_EQUAL(rmclient_uvm_open(&client), 0);
    memory = attack_must_alloc(&client, attack_quota());
    params.memory = memory;
    CHECK_EQUAL(rmclient_alloc(&client, client.subdevice, &fabric, RM_CLASS_MEMORY_FABRIC, &params,
                               sizeof(params)),
                0);
    attack_must_free(&client, memory);
    CHECK_EQUAL(book(&client, 0).gpu_used, attack_quota());
    /* All of the quota is used. */
    CHECK_EQUAL(attack_alloc(&client, PAGE, &again), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(rmclient_uvm_range(&client, BASE, attack_quota()), 0);
    CHECK_EQUAL(rmclient_uvm_map(&client, BASE, attack_quota(), 0, fabric), 0);
    attack_must_free(&client, fabric);
    CHECK_EQUAL(attack_alloc(&client, PAGE, &again), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(rmclient_uvm_free(&client, BASE, attack_quota()), 0);
    attack_check_room(&client);
    return 0;
}

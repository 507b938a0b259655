/*
 * With a cap of 10 percent, channels of every class are capped, also of the oldest class, which
 * every chip lists. The guard refuses unknown classes.
 */
#include "attack.h"

#define OLDEST_CLASS  0x906fu
#define UNKNOWN_CLASS 0xdf6fu
#define WORK_NS       1000000U

int main(void)
{
    uint32_t params[92] = {[32] = 1}, group = 0, channel = 0;
    struct rmclient client;

    attack_open(&client);
    CHECK_EQUAL(rmclient_group(&client, &group), 0);
    CHECK_EQUAL(rmclient_alloc(&client, group, &channel, UNKNOWN_CLASS, params, sizeof(params)),
                RM_ERR_NOT_SUPPORTED);
    channel = 0;
    CHECK_EQUAL(rmclient_alloc(&client, group, &channel, OLDEST_CLASS, params, sizeof(params)), 0);
    CHECK_EQUAL(rmclient_schedule(&client, group, true), 0);
    CHECK_EQUAL(rmclient_submit(&client, channel, WORK_NS, 1000000), 0);
    attack_check_capped(&client);
    rmclient_close(&client);
    return 0;
}

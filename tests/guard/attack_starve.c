/*
 * The program takes from the supervisor what any process of the same user can take.
 *
 *   attack_starve threads    with a cap of 10 percent: the cap holds, or the channel is refused
 *   attack_starve files      in strict mode: the instance ends when it cannot be audited
 */
#include "attack.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define WORK_NS 1000000U

/* Neither a thread, for its user's sake (root has no such limit), nor memory for one. */
static int threads(void)
{
    const struct rlimit none = {1, 1};
    uint32_t group, channel;
    struct rmclient client;

    attack_open(&client);
    CHECK_EQUAL(prlimit(getppid(), RLIMIT_NPROC, &none, NULL), 0);
    CHECK_EQUAL(prlimit(getppid(), RLIMIT_AS, &none, NULL), 0);
    if (rmclient_compute(&client, 1, &group, &channel) ==
        0) { /* else it is refused, which is as well */
        CHECK_EQUAL(rmclient_submit(&client, channel, WORK_NS, 1000000), 0);
        attack_check_capped(&client);
    }
    rmclient_close(&client);
    return 0;
}

static int files(void)
{
    const struct rlimit few = {3, 3};
    struct rmclient client;

    attack_open(&client);
    attack_must_alloc(&client, attack_quota());
    CHECK_EQUAL(prlimit(getppid(), RLIMIT_NOFILE, &few, NULL), 0);
    attack_around(&client, 2 * GIB);
    nap_ms(60000);
    return 3; /* it should not be alive any more */
}

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "threads") == 0 ? threads() : files();
}

/*
 * A process makes a client and ends, and another process uses the client's files. It gets memory
 * around the guard, which the driver counts to the process that has ended. The audit must find it,
 * and strict mode must end the instance.
 */
#include "attack.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
    struct rmclient *client =
        mmap(NULL, sizeof(*client), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rmclient own;
    int sockets[2];
    pid_t maker;

    CHECK(client != MAP_FAILED);
    attack_open(&own); /* somebody of the instance is there */
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    maker = attack_fork();
    if (maker == 0) {
        attack_open(client);
        attack_send_fd(sockets[0], client->ctl);
        attack_send_fd(sockets[0], client->card);
        _exit(0);
    }
    client->ctl = attack_receive_fd(sockets[1]);
    client->card = attack_receive_fd(sockets[1]);
    CHECK_EQUAL(finish(maker), 0);
    nap_ms(1500); /* the guard has noticed by then that it has ended, or notices it later */
    attack_must_alloc(&own, attack_quota());
    attack_around(client, 2 * GIB);
    nap_ms(60000);
    return 3; /* it should not be alive any more */
}

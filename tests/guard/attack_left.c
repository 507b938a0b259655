/*
 * What the command leaves behind: a child that has the driver's files or a mapping of one, and has
 * made no trapped call. It must end with the command. attack.sh checks that the driver holds
 * nothing.
 *
 *   attack_left files | mapping
 */
#include "attack.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void stay(void)
{
    setsid();
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    bool mapping = argc > 1 && strcmp(argv[1], "mapping") == 0;
    struct rmclient client;
    int told[2];
    char byte;

    attack_open(&client);
    if (mapping)
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, client.ctl, 0) != MAP_FAILED);
    attack_must_alloc(&client, 512 * MIB);
    CHECK_EQUAL(pipe(told), 0);
    if (fork() == 0) {
        for (int fd = 0; fd < (mapping ? 1024 : 3); fd++) {
            if (fd != told[1])
                close(fd);
        }
        CHECK_EQUAL(write(told[1], "x", 1), 1);
        close(told[1]);
        stay();
    }
    CHECK_EQUAL(read(told[0], &byte, 1), 1);
    return 0;
}

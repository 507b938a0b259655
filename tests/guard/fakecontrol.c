/* Listens on the socket that argv[1] names, in place of a supervisor, and says to everybody that
 * all is done. */
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int32_t done = 0;
    char question[256];

    if (argc < 2 || (size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]) >=
                        sizeof(address.sun_path))
        return 2;
    unlink(address.sun_path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
        return 2;
    puts("listens");
    fflush(stdout);
    for (;;) {
        int connection = accept(fd, NULL, NULL);

        if (send(connection, &done, sizeof(done), MSG_NOSIGNAL) > 0 &&
            recv(connection, question, sizeof(question), 0) > 0)
            send(connection, &done, sizeof(done), MSG_NOSIGNAL);
        close(connection);
    }
}

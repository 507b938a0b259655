#include "peers.h"

#include "harness.h"

#include <sys/socket.h>
#include <unistd.h>

void send_fd(int socket, int fd)
{
    char byte = 'f', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

int receive_fd(int socket)
{
    int fd = -1;
    char byte, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

void send_byte(int socket)
{
    CHECK(write(socket, "x", 1) == 1);
}

void await_byte(int socket)
{
    char byte;
    CHECK(read(socket, &byte, 1) == 1);
}

pid_t with_orders(void (*run)(int peer, int orders, const char *end), int peer, const char *end,
                  int *ret_orders)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        run(peer, ends[1], end);
    }
    close(ends[1]);
    *ret_orders = ends[0];
    return child;
}

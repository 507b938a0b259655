#include "base/passfd.h"

#include "base/err.h"

#include <sys/socket.h>

/* The one byte that the message needs, and room for a descriptor beside it. */
struct parcel {
    char byte;
    struct iovec data;
    struct msghdr message;
    char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
};

static void prepare(struct parcel *parcel)
{
    memset(parcel, 0, sizeof(*parcel));
    parcel->data = (struct iovec){&parcel->byte, 1};
    parcel->message = (struct msghdr){.msg_iov = &parcel->data,
                                      .msg_iovlen = 1,
                                      .msg_control = parcel->space,
                                      .msg_controllen = sizeof(parcel->space)};
}

int passfd_send(int socket, int fd)
{
    struct parcel parcel;
    struct cmsghdr *head;

    prepare(&parcel);
    head = CMSG_FIRSTHDR(&parcel.message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    return sendmsg(socket, &parcel.message, MSG_NOSIGNAL) == 1 ? 0 : err_last();
}

int passfd_receive(int socket, int *ret_fd)
{
    struct parcel parcel;
    struct cmsghdr *head;
    ssize_t got;

    prepare(&parcel);
    got = recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got < 0 ? err_last() : -ECHILD;
    head = CMSG_FIRSTHDR(&parcel.message);
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(*ret_fd)))
        return -EPROTO;
    memcpy(ret_fd, CMSG_DATA(head), sizeof(*ret_fd));
    return 0;
}

/* Handing an open file to another process, over a Unix socket. */
#ifndef VGPU_BASE_PASSFD_H
#define VGPU_BASE_PASSFD_H

/* One descriptor, with one byte. 0 or -errno; no SIGPIPE. */
int passfd_send(int socket, int fd);

/* Waits for one; it is closed on exec. -ECHILD: the other end is closed; -EPROTO: something else
 * came. */
int passfd_receive(int socket, int *ret_fd);

#endif

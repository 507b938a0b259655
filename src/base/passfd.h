/* Passes an open file to another process over a Unix socket. */
#ifndef VGPU_BASE_PASSFD_H
#define VGPU_BASE_PASSFD_H

/* Sends one descriptor with one byte. 0 or -errno; raises no SIGPIPE. */
int passfd_send(int socket, int fd);

/* Waits for a descriptor, which is closed on exec. -ECHILD: the other end is closed; -EPROTO: the
 * message was another one. */
int passfd_receive(int socket, int *ret_fd);

#endif

/*
 * Put into the guard by LD_PRELOAD: the part of the driver that a file system cannot play, making a
 * descriptor in the table of its caller. A "dma-buf" is a control device that comes to hold the
 * objects.
 */
#include "rmclient.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int ioctl(int fd, unsigned long cmd, ...);

#define DMABUF_BYTES 2608 /* from branch 570 on */

static int export_dmabuf(uint8_t *bytes, unsigned size)
{
    struct fakerm_hold hold = {0};
    struct rm_dmabuf head;
    bool made = false;

    memcpy(&head, bytes, sizeof(head));
    hold.client = head.client;
    hold.total = head.total;
    hold.first = head.index;
    hold.count = head.count;
    if (hold.count <= RM_DMABUF_MAX)
        memcpy(hold.handle, bytes + (size == DMABUF_BYTES ? 36 : 32),
               hold.count * sizeof(hold.handle[0]));
    if (head.fd == -1) {
        head.fd = rmclient_open_file(NULL, "nvidiactl");
        made = true;
    }
    if (rmclient_ioctl(head.fd, FAKERM_HOLD, &hold) < 0)
        hold.status = RM_ERR_INVALID_ARGUMENT;
    if (hold.status == RM_OK)
        memcpy(bytes, &head.fd, sizeof(head.fd));
    else if (made)
        close(head.fd);
    memcpy(bytes + size - 8, &hold.status, sizeof(hold.status));
    return 0;
}

int ioctl(int fd, unsigned long cmd, ...)
{
    va_list list;
    void *arg;
    long rc;

    va_start(list, cmd);
    arg = va_arg(list, void *);
    va_end(list);
    if ((cmd & 0xff) == RM_ESC_EXPORT_DMABUF && (cmd >> 8 & 0xff) == 'F')
        return export_dmabuf(arg, _IOC_SIZE(cmd));
    rc = syscall(SYS_ioctl, fd, cmd, arg);
    return (int)rc;
}

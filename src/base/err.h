/* Errors are negative errno values; 0 and above is success. */
#ifndef VGPU_BASE_ERR_H
#define VGPU_BASE_ERR_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The text of a negative errno. The result may point into `buffer`. */
static inline const char *err_text(int negative_errno, char *buffer, size_t buffer_bytes)
{
    if (negative_errno == -EFBIG)
        return "file too large for the limit of ulimit -f (RLIMIT_FSIZE); raise it";
    return strerror_r(-negative_errno, buffer, buffer_bytes);
}

/* The negative errno of the system call that just failed; never 0. */
static inline int err_last(void)
{
    return errno > 0 ? -errno : -EIO;
}

#endif

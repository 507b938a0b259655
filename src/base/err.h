/*
 * Errors are negative errno values; 0 and above is success. Two helpers to show and to chain them.
 */
#ifndef VGPU_BASE_ERR_H
#define VGPU_BASE_ERR_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Words for a negative errno, the system's where they say enough. `buffer` may or may not be used;
 * the result lives as long as it does. */
static inline const char *err_text(int negative_errno, char *buffer, size_t buffer_bytes)
{
    if (negative_errno == -EFBIG)
        return "file too large for the limit of ulimit -f (RLIMIT_FSIZE); raise it";
    return strerror_r(-negative_errno, buffer, buffer_bytes);
}

/* The negative of the errno that a failed system call has just left; never 0. */
static inline int err_last(void)
{
    return errno > 0 ? -errno : -EIO;
}

#endif

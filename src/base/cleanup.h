/* Cleanup attributes: a variable releases what it owns when its scope ends, on every path. */
#ifndef VGPU_BASE_CLEANUP_H
#define VGPU_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(function) __attribute__((cleanup(function)))

static inline void cleanup_free(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

static inline void cleanup_close(const int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    errno = saved;
}

static inline void cleanup_errno(const int *saved)
{
    errno = *saved;
}

#define CLEANUP_FREE  CLEANUP(cleanup_free)
#define CLEANUP_CLOSE CLEANUP(cleanup_close)

/* Restores errno when the scope ends. For every function that the program did not call itself. */
#define KEEP_ERRNO int saved_errno_ CLEANUP(cleanup_errno) __attribute__((unused)) = errno

/* Takes the descriptor out of the variable, which owns nothing afterwards. */
static inline int steal_fd(int *fd)
{
    int given = *fd;

    *fd = -1;
    return given;
}

#endif

/* Asking a library that we do not trust: in a child process, with a time limit. */
#ifndef VGPU_GPU_SUBPROCESS_H
#define VGPU_GPU_SUBPROCESS_H

#include <stddef.h>

/*
 * Runs body(result) in a child; what it writes to `ret_result` (`size` bytes, zeroed before) comes
 * back. stdout and stderr of the child are /dev/null. -ETIMEDOUT: it took longer than `limit_ms`
 * and was killed; -ECANCELED: it died of a signal
 * (*ret_signal); other -errno: it could not be started.
 */
int subprocess_run(void (*body)(void *ret_result), void *ret_result, size_t size, int limit_ms,
                   int *ret_signal);

#endif

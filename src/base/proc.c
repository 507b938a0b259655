#include "base/proc.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/nocancel.h"

#include <stdio.h>
#include <string.h>

#define PF_EXITING 0x00000004u /* include/linux/sched.h */

bool proc_stat_is_exiting(const char *stat)
{
    /* A command may hold spaces and parentheses: the last parenthesis ends it. */
    const char *fields = strrchr(stat, ')');
    unsigned flags;
    long threads;
    char state;

    if (!fields || sscanf(fields, ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &state,
                          &flags, &threads) != 3)
        return false;
    /* A process has ended with the last of its threads; the first one stays until then, as a zombie. */
    return flags & PF_EXITING && ((state != 'Z' && state != 'X') || threads > 1);
}

bool proc_is_exiting(pid_t pid)
{
    KEEP_ERRNO;
    NO_CANCEL;
    char path[32], text[1024];
    size_t length;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    return file_read_small(path, text, sizeof(text), &length) == 0 && proc_stat_is_exiting(text);
}

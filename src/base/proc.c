#include "base/proc.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/nocancel.h"

#include <stdio.h>
#include <string.h>

#define PF_EXITING 0x00000004u /* include/linux/sched.h */
#define STAT_BYTES 1024

struct stat_fields {
    char state;
    unsigned flags;
    long threads;
};

static bool read_fields(const char *stat, struct stat_fields *ret_fields)
{
    /* A command may hold spaces and parentheses: the last parenthesis ends it. */
    const char *fields = strrchr(stat, ')');

    return fields && sscanf(fields, ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                            &ret_fields->state, &ret_fields->flags, &ret_fields->threads) == 3;
}

static bool is_zombie(const struct stat_fields *fields)
{
    return fields->state == 'Z' || fields->state == 'X';
}

bool proc_stat_is_exiting(const char *stat)
{
    struct stat_fields fields;

    /* A process has ended with the last of its threads; the first one stays until then, as a zombie. */
    return read_fields(stat, &fields) && fields.flags & PF_EXITING && (!is_zombie(&fields) || fields.threads > 1);
}

static bool read_stat(pid_t pid, char *buffer, size_t size)
{
    char path[32];
    size_t length;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    return file_read_small(path, buffer, size, &length) == 0;
}

bool proc_is_exiting(pid_t pid)
{
    KEEP_ERRNO;
    NO_CANCEL;
    char text[STAT_BYTES];

    return read_stat(pid, text, sizeof(text)) && proc_stat_is_exiting(text);
}

bool proc_thread_ended(pid_t tid)
{
    KEEP_ERRNO;
    char text[STAT_BYTES];
    struct stat_fields fields;

    return !read_stat(tid, text, sizeof(text)) || !read_fields(text, &fields) || is_zombie(&fields) ||
           fields.flags & PF_EXITING;
}

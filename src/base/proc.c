#include "base/proc.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/nocancel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PF_EXITING 0x00000004u /* include/linux/sched.h */
#define STAT_BYTES 1024

struct stat_fields {
    char state;
    unsigned flags;
    long threads;
};

/* The field of that number as proc(5) counts, from the third on; NULL: the line is too short. */
static const char *field_at(const char *third, unsigned number)
{
    for (; third && number > 3; number--) {
        third = strchr(third, ' ');
        if (third)
            third++;
    }
    return third;
}

static bool read_fields(const char *stat, struct stat_fields *ret_fields)
{
    /* A command may hold spaces and parentheses: the last parenthesis ends it. */
    const char *end = strrchr(stat, ')');
    const char *third = end && end[1] == ' ' ? end + 2 : NULL;
    const char *flags = field_at(third, 9), *threads = field_at(flags, 20 - 9 + 3);

    if (!threads || !*threads)
        return false;
    *ret_fields = (struct stat_fields){.state = *third,
                                       .flags = (unsigned)strtoul(flags, NULL, 10),
                                       .threads = strtol(threads, NULL, 10)};
    return true;
}

static bool is_zombie(const struct stat_fields *fields)
{
    return fields->state == 'Z' || fields->state == 'X';
}

bool proc_stat_is_exiting(const char *stat)
{
    struct stat_fields fields;

    /* A process ends with its last thread; until then its first thread stays as a zombie. */
    return read_fields(stat, &fields) && fields.flags & PF_EXITING &&
           (!is_zombie(&fields) || fields.threads > 1);
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

    return !read_stat(tid, text, sizeof(text)) || !read_fields(text, &fields) ||
           is_zombie(&fields) || fields.flags & PF_EXITING;
}

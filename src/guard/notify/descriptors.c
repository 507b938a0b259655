#include "guard/notify/descriptors.h"

#include "guard/notify/task.h"

#include <limits.h>

#define OURS 64 /* for what is always open, and for what is looked at */

void descriptors_init(struct descriptors *descriptors)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = limit.rlim_max = 1024;
    descriptors->before = limit;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = descriptors->before.rlim_cur;
    descriptors->most = limit.rlim_cur < INT_MAX ? (unsigned)limit.rlim_cur : INT_MAX;
}

void descriptors_restore(const struct descriptors *descriptors)
{
    setrlimit(RLIMIT_NOFILE, &descriptors->before);
}

unsigned descriptors_for_tasks(const struct descriptors *descriptors)
{
    unsigned quarter = descriptors->most / 4;

    return quarter > TASKS_CACHED ? TASKS_CACHED : quarter ? quarter : 1;
}

/* The kernel gives the lowest number that is free. */
bool descriptors_left(const struct descriptors *descriptors, int fd)
{
    return (unsigned)fd + descriptors_for_tasks(descriptors) + OURS < descriptors->most;
}

bool descriptors_left_for_call(const struct descriptors *descriptors, int fd)
{
    return (unsigned)fd + OURS / 2 < descriptors->most; /* the other threads need some, too */
}

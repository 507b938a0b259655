#include "guard/notify/privilege.h"

#include "base/err.h"
#include "base/file.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

#define WORDS 2

/* The threads that make calls give up the first two; the program gives up all. */
static const unsigned dropped[] = {CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_SYS_PTRACE};
#define CALLERS  2
#define PROGRAMS 3

struct capabilities {
    struct __user_cap_header_struct head;
    struct __user_cap_data_struct data[WORDS];
};

static int read_own(struct capabilities *ret_capabilities)
{
    ret_capabilities->head =
        (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &ret_capabilities->head, ret_capabilities->data) < 0 ? err_last()
                                                                                    : 0;
}

static int take_away(unsigned count)
{
    struct capabilities own;
    int rc = read_own(&own);

    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < count; i++) {
        uint32_t bit = 1u << dropped[i] % 32;
        struct __user_cap_data_struct *word = &own.data[dropped[i] / 32];

        word->effective &= ~bit;
        word->permitted &= ~bit;
        word->inheritable &= ~bit;
    }
    return syscall(SYS_capset, &own.head, own.data) < 0 ? err_last() : 0;
}

int privilege_drop(void)
{
    int rc = take_away(CALLERS);

    if (rc == 0)
        privilege_profile_as(0);
    return rc;
}

int privilege_drop_for_good(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++) {
        /* Without CAP_SETPCAP the bounding set cannot be changed; with no_new_privs it gives no
         * rights. */
        if (prctl(PR_CAPBSET_DROP, dropped[i], 0, 0, 0) < 0 && errno != EPERM && errno != EINVAL)
            return err_last();
    }
    return take_away(PROGRAMS);
}

/* In a user namespace of its own a process has all capabilities, which mean nothing to the driver.
 */
static bool is_of_our_namespace(pid_t tid)
{
    struct stat its, ours;
    char path[48];

    snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)tid);
    return file_stat_path(path, 1, &its) == 0 &&
           file_stat_path("/proc/self/ns/user", 1, &ours) == 0 && its.st_ino == ours.st_ino &&
           its.st_dev == ours.st_dev;
}

static bool has(pid_t tid, unsigned capability)
{
    char path[48], text[2048];
    const char *line;
    size_t length;

    if (!is_of_our_namespace(tid))
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/status", (long)tid);
    if (file_read_small(path, text, sizeof(text), &length) < 0)
        return false;
    line = strstr(text, "\nCapEff:");
    return line && strtoull(line + 8, NULL, 16) >> capability & 1;
}

void privilege_profile_as(pid_t tid)
{
    const uint32_t bit = 1u << CAP_PERFMON % 32;
    const unsigned word = CAP_PERFMON / 32;
    bool wanted = tid != 0 && has(tid, CAP_PERFMON);
    struct capabilities own;

    if (read_own(&own) < 0 || !(own.data[word].permitted & bit))
        return;
    own.data[word].effective &= ~bit;
    if (wanted)
        own.data[word].effective |= bit;
    syscall(SYS_capset, &own.head, own.data);
}

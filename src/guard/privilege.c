#include "guard/privilege.h"

#include "base/err.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS 2

/* Of those who make calls; the last one only of the program. */
static const unsigned dropped[] = {CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_SYS_PTRACE};
#define CALLERS  2
#define PROGRAMS 3

struct capabilities {
    struct __user_cap_header_struct head;
    struct __user_cap_data_struct data[WORDS];
};

static int read_own(struct capabilities *ret_capabilities)
{
    ret_capabilities->head = (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &ret_capabilities->head, ret_capabilities->data) < 0 ? err_last() : 0;
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
    return take_away(CALLERS);
}

int privilege_drop_for_good(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++) {
        /* Without CAP_SETPCAP it may not be taken off the bounding set; with no_new_privs nobody gets it from there. */
        if (prctl(PR_CAPBSET_DROP, dropped[i], 0, 0, 0) < 0 && errno != EPERM && errno != EINVAL)
            return err_last();
    }
    return take_away(PROGRAMS);
}

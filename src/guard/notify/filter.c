#include "guard/notify/filter.h"

#include "base/err.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define LISTENER_FLAGS (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the guard knows x86-64 and aarch64"
#endif

#define SKIPPED    UINT32_MAX /* the call number after a debugger has skipped a call */
#define X32_BIT    0x40000000u
#define FILTER_MAX 96

/* The low halves of arguments; both architectures are little-endian. The kernel ignores the rest of
 * an ioctl's command. */
#define ARG_LOW(n) ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (n)))

struct program {
    struct sock_filter code[FILTER_MAX];
    unsigned length;
};

static void put(struct program *program, uint16_t code, uint32_t k, uint8_t if_true,
                uint8_t if_false)
{
    if (program->length < FILTER_MAX)
        program->code[program->length++] = (struct sock_filter){code, if_true, if_false, k};
}

static void load(struct program *program, size_t offset)
{
    put(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct program *program, uint32_t what)
{
    put(program, BPF_RET | BPF_K, what, 0, 0);
}

/* `what` where the accumulator is `value`; goes on otherwise. */
static void answer_if(struct program *program, uint32_t value, uint32_t what)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    answer(program, what);
}

static void answer_unless(struct program *program, uint32_t value, uint32_t what)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    answer(program, what);
}

/* Whole words come before the mask: FIONBIO with the mask would look like a call of the driver. */
static void put_ioctl(struct program *program, const struct filter_calls *calls)
{
    load(program, ARG_LOW(1));
    for (unsigned i = 0; i < calls->whole_count; i++)
        answer_if(program, calls->whole[i], SECCOMP_RET_USER_NOTIF);
    answer_if(program, calls->refused, SECCOMP_RET_ERRNO | EOPNOTSUPP);
    put(program, BPF_ALU | BPF_AND | BPF_K, calls->mask, 0, 0);
    for (unsigned i = 0; i < calls->key_count; i++)
        answer_if(program, calls->key[i], SECCOMP_RET_USER_NOTIF);
    answer(program, SECCOMP_RET_ALLOW);
}

/* Managed memory is a shared, writable mapping of the UVM device. */
static void put_mmap(struct program *program)
{
    load(program, ARG_LOW(3));
    put(program, BPF_ALU | BPF_AND | BPF_K, MAP_SHARED | MAP_ANONYMOUS, 0, 0);
    answer_unless(program, MAP_SHARED, SECCOMP_RET_ALLOW);
    load(program, ARG_LOW(2));
    put(program, BPF_ALU | BPF_AND | BPF_K, PROT_READ | PROT_WRITE, 0, 0);
    answer_unless(program, PROT_READ | PROT_WRITE, SECCOMP_RET_ALLOW);
    /* The driver takes no mapping whose offset is not its address (uvm.c, uvm_mmap). A mapping from
     * a file's beginning, as most are, would have to be at address 0, which a program gets only
     * with MAP_FIXED. */
    load(program, ARG_LOW(5));
    answer_unless(program, 0, SECCOMP_RET_USER_NOTIF);
    load(program, ARG_LOW(5) + 4);
    answer_unless(program, 0, SECCOMP_RET_USER_NOTIF);
    load(program, ARG_LOW(3));
    put(program, BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED | MAP_FIXED_NOREPLACE, 1, 0);
    answer(program, SECCOMP_RET_ALLOW);
    load(program, ARG_LOW(0));
    answer_unless(program, 0, SECCOMP_RET_ALLOW);
    load(program, ARG_LOW(0) + 4);
    answer_if(program, 0, SECCOMP_RET_USER_NOTIF);
    answer(program, SECCOMP_RET_ALLOW);
}

/* Skips the instructions written behind `at` unless the accumulator is `value`. */
static void skip_unless(struct program *program, unsigned at, uint32_t value)
{
    unsigned inner = program->length - at - 1;

    program->code[at] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)inner, value};
}

static void build(struct program *program, const struct filter_calls *calls)
{
    unsigned jump;

    load(program, offsetof(struct seccomp_data, arch));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    answer(program, SECCOMP_RET_KILL_PROCESS); /* 32-bit system calls reach the driver too */
    load(program, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    answer_if(program, SKIPPED, SECCOMP_RET_ALLOW);
    put(program, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    answer(program, SECCOMP_RET_KILL_PROCESS);
#endif
    jump = program->length;
    put(program, 0, 0, 0, 0);
    put_ioctl(program, calls);
    skip_unless(program, jump, SYS_ioctl);
    jump = program->length;
    put(program, 0, 0, 0, 0);
    put_mmap(program);
    skip_unless(program, jump, SYS_mmap);
    answer(program, SECCOMP_RET_ALLOW);
}

static int seccomp(unsigned operation, unsigned long flags, void *argument)
{
    long rc = syscall(SYS_seccomp, operation, flags, argument);

    return rc < 0 ? err_last() : (int)rc;
}

int filter_install(const struct filter_calls *calls)
{
    struct program program = {.length = 0};
    struct sock_fprog code = {.filter = program.code};

    build(&program, calls);
    if (program.length >= FILTER_MAX)
        return -E2BIG;
    code.len = (unsigned short)program.length;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_last();
    return seccomp(SECCOMP_SET_MODE_FILTER, LISTENER_FLAGS, &code);
}

int filter_supported(void)
{
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    int rc = seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action);

    if (rc < 0)
        return rc;
    /* The kernel looks at the flags before the program: without a program, known flags give EFAULT.
     */
    rc = seccomp(SECCOMP_SET_MODE_FILTER, LISTENER_FLAGS, NULL);
    return rc == -EFAULT ? 0 : rc < 0 ? rc : -EINVAL;
}

/*
 * Ways around the filter: system calls of another ABI, and a filter that the tenant itself
 * installs.
 */
#include "attack.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rmclient client;

static int in_child(void (*act)(void))
{
    pid_t child = attack_fork();

    if (child == 0) {
        act();
        _exit(0);
    }
    return finish(child);
}

#if defined(__x86_64__)

/* The calls of 32-bit programs, from this one: the driver takes them, too. Their memory has to be
 * down below. */
static void by_int80(void)
{
    struct arguments {
        struct rm_alloc alloc;
        struct rm_memory_params params;
    } *low = mmap(NULL, sizeof(*low), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    long rc;

    CHECK(low != MAP_FAILED);
    low->params = (struct rm_memory_params){.attr = ATTR_4K, .size = 2 * attack_quota()};
    low->alloc = (struct rm_alloc){.root = client.client,
                                   .parent = client.device,
                                   .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                                   .params = (uintptr_t)&low->params};
    __asm__ volatile("int $0x80"
                     : "=a"(rc)
                     : "a"(54L), "b"((long)client.ctl),
                       "c"((long)RM_IOCTL(RM_ESC_ALLOC, sizeof(low->alloc))), "d"(&low->alloc)
                     : "memory", "r8", "r9", "r10", "r11");
    _exit(1);
}

static void by_int80_getpid(void)
{
    long rc;

    __asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    _exit(1);
}

static void by_x32(void)
{
    struct rm_alloc alloc = {.root = client.client};

    syscall(0x40000000 | SYS_ioctl, client.ctl, RM_IOCTL(RM_ESC_ALLOC, sizeof(alloc)), &alloc);
    _exit(1);
}

static void by_x32_ioctl(void)
{
    syscall(0x40000000 | 514, client.ctl, RM_IOCTL(RM_ESC_ALLOC, sizeof(struct rm_alloc)), NULL);
    _exit(1);
}

static void check_other_calls(void)
{
    void (*const ways[])(void) = {by_int80, by_int80_getpid, by_x32, by_x32_ioctl};

    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int end = in_child(ways[i]);

        if (i < 2 && end == 1000 + SIGSEGV) /* a kernel that does not know the interrupt */
            fprintf(stderr, "no 32-bit system calls here\n");
        else
            CHECK_EQUAL(end, 1000 + SIGSYS);
    }
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
}

#else

static void check_other_calls(void)
{
}

#endif

/* A filter that says `what` to every ioctl. */
static int install(uint32_t what, unsigned long flags)
{
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_ioctl},
        {BPF_RET | BPF_K, 0, 0, what},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0 ? -errno : 0;
}

static uint32_t tried;

static int try_alloc(void)
{
    struct rm_memory_params params = {.attr = ATTR_4K, .size = PAGE};

    tried = 0;
    return rmclient_alloc(&client, client.device, &tried, RM_CLASS_MEMORY_LOCAL_USER, &params,
                          sizeof(params));
}

static void with_listener(void)
{
    CHECK_EQUAL(install(SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_NEW_LISTENER), -EBUSY);
    CHECK_EQUAL(install(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER), -EBUSY);
    attack_check_room(&client);
}

static void with_allow(void)
{
    CHECK_EQUAL(install(SECCOMP_RET_ALLOW, 0), 0);
    attack_check_room(&client);
    CHECK_EQUAL(install(SECCOMP_RET_LOG, SECCOMP_FILTER_FLAG_TSYNC), 0);
    attack_check_room(&client);
}

static void with_error(void)
{
    CHECK_EQUAL(install(SECCOMP_RET_ERRNO | EXDEV, 0), 0);
    CHECK_EQUAL(try_alloc(), -EXDEV);
}

/* Its own question, which nobody can answer, is asked first. */
static void with_notification(void)
{
    CHECK_EQUAL(install(SECCOMP_RET_USER_NOTIF, 0), 0);
    CHECK_EQUAL(try_alloc(), -ENOSYS);
}

/* Comes after the guard's. */
static void with_trace(void)
{
    CHECK_EQUAL(install(SECCOMP_RET_TRACE, 0), 0);
    CHECK_EQUAL(try_alloc(), 0);
    attack_must_free(&client, tried);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    _exit(signal == SIGSYS && info->si_syscall == SYS_ioctl ? 5 : 1);
}

static void with_trap(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

    sigaction(SIGSYS, &action, NULL);
    CHECK_EQUAL(install(SECCOMP_RET_TRAP, 0), 0);
    try_alloc();
}

/* The filter comes along, whatever the new program is; and there is no way back. */
static void without_privileges(void)
{
    CHECK_EQUAL(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) < 0);
    CHECK_EQUAL(prctl(PR_GET_SECCOMP), SECCOMP_MODE_FILTER);
}

int main(void)
{
    attack_open(&client);
    check_other_calls();
    without_privileges();
    CHECK_EQUAL(in_child(with_listener), 0);
    CHECK_EQUAL(in_child(with_allow), 0);
    CHECK_EQUAL(in_child(with_error), 0);
    CHECK_EQUAL(in_child(with_notification), 0);
    CHECK_EQUAL(in_child(with_trace), 0);
    CHECK_EQUAL(in_child(with_trap), 5);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    attack_check_room(&client);
    rmclient_close(&client);
    return 0;
}

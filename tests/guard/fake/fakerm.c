/*
 * fakerm: a file system that plays NVIDIA's driver, for machines without a GPU.
 *
 *     fakerm [OPTIONS] DIR       mounts on DIR, prints "ready" and goes on in the background
 *     cat DIR/book               who has what, and what was called
 *     kill PID                   unmounts; so does umount -l DIR, once the last file is closed
 *
 *     --foreground               stay; "ready" is printed and standard output closed
 *     --pidfile FILE             where the process's number goes
 *     --gpus N                   1
 *     --mem BYTES                of each GPU, 16 GiB; K, M, G
 *     --version TEXT             of the driver, 580.126.20; branches differ as the driver's do
 *     --huge                     memory of 2 MiB and more is rounded up to 2 MiB (otherwise to 64
 *                                KiB)
 *     --slice-us N               of a channel group, 2000
 *     --switch-us N              the device turns from one process to another, 20
 *     --off-us N, --on-us N      FIFO_DISABLE_CHANNELS, 640 and 385
 *     --end-us N                 the same with only_scheduling, 405
 *     --preempt-us N             GROUP_PREEMPT, 250
 *     --counts-us N              GR_GET_CTXSW_STATS, 250
 *
 * Needs /dev/fuse and the right to mount, which root has, and anybody in `unshare -rm`. Ends with
 * 77 where that is not to be had. Files: nvidiactl, nvidia-uvm, nvidia0.., version (as
 * /proc/driver/nvidia/version), book. Programs for it are linked with rmclient; libnvidia-ml.so.1
 * in nvml/ reads the book of $FAKERM_DIR. rmtest says what it can do.
 *
 * What it is honest about: sizes, statuses, owners, references, whose memory is read when, time,
 * and what can be seen of it from outside. Whatever the engine, work takes turns with all other
 * work. What it leaves out: rights between users, sharing policies, dma-bufs (a file system cannot
 * make a descriptor; FAKERM_HOLD stands in for what they hold), faults, contents of memory,
 * everything that has to do with displays.
 */
#include "fakerm.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SKIP  77
#define TIMES 256 /* options from here on are times in us */

struct settings settings = {
    .gpus = 1,
    .mem_bytes = 16ULL << 30,
    .version = "580.126.20",
    .slice_ns = 2000000,
    .switch_ns = 20000,
    .off_ns = 640000,
    .on_ns = 385000,
    .end_ns = 405000,
    .preempt_ns = 250000,
    .counts_ns = 250000,
};

pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
struct file *files;

struct command {
    const char *dir, *pidfile;
    bool foreground;
};

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);

    switch (*end) {
    case 'G':
        value <<= 10;
        __attribute__((fallthrough));
    case 'M':
        value <<= 10;
        __attribute__((fallthrough));
    case 'K':
        value <<= 10;
        end++;
    }
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "fakerm: no number: %s\n", text);
        exit(2);
    }
    return value;
}

static void read_options(int argc, char **argv, struct command *ret_command)
{
    static uint64_t *const times[] = {&settings.slice_ns, &settings.switch_ns,  &settings.off_ns,
                                      &settings.on_ns,    &settings.preempt_ns, &settings.counts_ns,
                                      &settings.end_ns};
    static const struct option options[] = {
        {"foreground", no_argument, NULL, 'f'},
        {"pidfile", required_argument, NULL, 'p'},
        {"gpus", required_argument, NULL, 'g'},
        {"mem", required_argument, NULL, 'm'},
        {"version", required_argument, NULL, 'v'},
        {"huge", no_argument, NULL, 'h'},
        {"slice-us", required_argument, NULL, TIMES + 0},
        {"switch-us", required_argument, NULL, TIMES + 1},
        {"off-us", required_argument, NULL, TIMES + 2},
        {"on-us", required_argument, NULL, TIMES + 3},
        {"preempt-us", required_argument, NULL, TIMES + 4},
        {"counts-us", required_argument, NULL, TIMES + 5},
        {"end-us", required_argument, NULL, TIMES + 6},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            ret_command->foreground = true;
            break;
        case 'p':
            ret_command->pidfile = optarg;
            break;
        case 'g':
            settings.gpus = (unsigned)number(optarg);
            break;
        case 'm':
            settings.mem_bytes = number(optarg) & ~0xffffULL;
            break;
        case 'v':
            settings.version = optarg;
            break;
        case 'h':
            settings.huge = true;
            break;
        default:
            if (option < TIMES)
                exit(2);
            *times[option - TIMES] = number(optarg) * 1000;
        }
    }
    settings.branch = (unsigned)strtoul(settings.version, NULL, 10);
    if (optind != argc - 1 || settings.gpus < 1 || settings.gpus > FAKERM_GPUS_MAX ||
        settings.mem_bytes == 0) {
        fprintf(stderr, "usage: fakerm [OPTIONS] DIR\n");
        exit(2);
    }
    ret_command->dir = argv[optind];
}

static void write_pidfile(const char *path)
{
    FILE *file = path ? fopen(path, "we") : NULL;

    if (!path)
        return;
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) {
        fprintf(stderr, "fakerm: %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

/* In the background from here on. The parent ends once the child says that it serves: its output is
 * closed then. */
static void go_back(int *ret_ready)
{
    int ends[2];
    pid_t child;
    char byte;

    if (pipe2(ends, O_CLOEXEC) < 0)
        exit(1);
    child = fork();
    if (child < 0)
        exit(1);
    if (child > 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 1)
            _exit(1);
        if (write(STDOUT_FILENO, "ready\n", 6) != 6)
            _exit(1);
        _exit(0);
    }
    close(ends[0]);
    setsid();
    *ret_ready = ends[1];
}

static void tell_ready(int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (write(ready, ready == STDOUT_FILENO ? "ready\n" : "r", ready == STDOUT_FILENO ? 6 : 1) < 0)
        exit(1);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    if (ready != STDOUT_FILENO)
        close(ready);
}

int main(int argc, char **argv)
{
    struct command command = {0};
    int rc, got, ready = STDOUT_FILENO;
    sigset_t ends;

    read_options(argc, argv, &command);
    rc = fuse_mount(command.dir);
    if (rc < 0) {
        bool wrong = rc == -ENOTDIR || (rc == -ENOENT && access(command.dir, F_OK) < 0);

        fprintf(stderr, "%s cannot mount FUSE on %s: %s\n", wrong ? "fakerm:" : "skip: fakerm",
                wrong ? command.dir : "a folder of its own", strerror(-rc));
        return wrong ? 1 : SKIP;
    }
    if (!command.foreground)
        go_back(&ready);
    prctl(PR_SET_TIMERSLACK, 1UL);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    rc = gpu_start();
    if (rc == 0)
        rc = fuse_start();
    if (rc < 0) {
        fprintf(stderr, "fakerm: %s\n", strerror(-rc));
        umount2(command.dir, MNT_DETACH);
        return 1;
    }
    write_pidfile(command.pidfile);
    tell_ready(ready);
    sigwait(&ends, &got);
    umount2(command.dir, MNT_DETACH);
    if (command.pidfile)
        unlink(command.pidfile);
    _exit(0); /* other threads still use everything */
}

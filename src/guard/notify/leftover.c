/*
 * A launch is a store to a mapped page. So a process that got the driver's files from its parent
 * can use a GPU without a call that the supervisor sees. It is looked for among all that the
 * command has started; that stays below this process, which is a subreaper.
 *
 * A process can make a reader of its map wait for as long as it likes. So a thread of its own
 * looks, and a process that holds it up is killed.
 */
#include "guard/notify/leftover.h"

#include "base/clock.h"
#include "guard/notify/pidfd.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define PASSES     16 /* a process may have children meanwhile, with the same files */
#define KILLED_MAX 1024
#define SLOW_NS    NS_PER_S
#define BOUND_NS   (10 * NS_PER_S)
#define LINE_BYTES 512

/* Static, as the thread may be left behind with it. */
static struct scan {
    pid_t self, keeper;
    bool strict;
    struct devices devices;
    struct device_node node[DEVICE_NODES_MAX];
    unsigned nodes;
    pid_t killed[KILLED_MAX];
    unsigned known; /* of them, those that the caller has killed */
    atomic_uint count;
    struct vgpu_mutex mutex; /* of the next two members */
    int examined;            /* the pidfd of the process that is looked at; -1: none */
    uint64_t since_ns;
} scan;

static bool is_mapping(const char *line)
{
    unsigned device_major, device_minor;
    unsigned long inode;

    if (sscanf(line, "%*x-%*x %*s %*x %x:%x %lu", &device_major, &device_minor, &inode) != 3)
        return false;
    for (unsigned i = 0; i < scan.nodes; i++) {
        if (scan.node[i].inode == inode &&
            scan.node[i].file_system == makedev(device_major, device_minor))
            return true;
    }
    return false;
}

static bool maps_driver(pid_t pid)
{
    char line[LINE_BYTES];
    bool found = false;
    FILE *file;
    int fd;

    if (task_open_file(pid, "maps", &fd) < 0)
        return false;
    file = fdopen(fd, "r");
    if (!file)
        close(fd);
    while (file && !found && fgets(line, sizeof(line), file))
        found = is_mapping(line);
    if (file)
        fclose(file);
    return found;
}

/* A thread may have a table of its own, and the table may be closed to us. */
static bool thread_has_file(pid_t pid, pid_t tid)
{
    bool found = false;
    struct dirent *entry;
    char path[64];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/fd", (long)pid, (long)tid);
    folder = opendir(path);
    if (!folder)
        return errno == EACCES && scan.strict;
    while (!found && (entry = readdir(folder))) {
        enum device_kind kind;

        found = entry->d_name[0] != '.' &&
                devices_kind_at(&scan.devices, tid, atoi(entry->d_name), &kind, NULL) == 0 &&
                kind != DEVICE_OTHER;
    }
    closedir(folder);
    return found;
}

static bool has_file(pid_t pid)
{
    bool found = false;
    struct dirent *entry;
    char path[48];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder)))
        found = entry->d_name[0] != '.' && thread_has_file(pid, (pid_t)atoi(entry->d_name));
    if (folder)
        closedir(folder);
    return found;
}

static bool was_killed(pid_t pid)
{
    for (unsigned i = 0; i < atomic_load(&scan.count); i++) {
        if (scan.killed[i] == pid)
            return true;
    }
    return false;
}

static void set_examined(int pidfd)
{
    MUTEX_SCOPE(&scan.mutex);
    scan.since_ns = clock_ns();
    scan.examined = pidfd;
}

/* True: it is one more. */
static bool kill_if_left(pid_t pid)
{
    bool more = false;
    int pidfd;

    if (pid == scan.self || pid == scan.keeper || was_killed(pid) || !task_descends(pid, scan.self))
        return false;
    pidfd = pidfd_of(pid, 0);
    if (pidfd < 0)
        return false;
    set_examined(pidfd);
    if (atomic_load(&scan.count) < KILLED_MAX && (has_file(pid) || maps_driver(pid)) &&
        pidfd_signal(pidfd, SIGKILL) == 0) {
        scan.killed[atomic_load(&scan.count)] = pid;
        atomic_fetch_add(&scan.count, 1);
        more = true;
    }
    set_examined(-1);
    close(pidfd);
    return more;
}

static bool kill_all(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    bool more = false;

    while (folder && (entry = readdir(folder))) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid > 0 && kill_if_left(pid))
            more = true;
    }
    if (folder)
        closedir(folder);
    return more;
}

static void *serve(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < PASSES && kill_all(); i++)
        continue;
    return NULL;
}

static void kill_slow(void)
{
    MUTEX_SCOPE(&scan.mutex);
    if (scan.examined >= 0 && clock_ns() - scan.since_ns >= SLOW_NS)
        pidfd_signal(scan.examined, SIGKILL);
}

static void begin(const struct notify *notify, bool strict)
{
    scan.self = getpid();
    scan.keeper = notify->keeper;
    scan.strict = strict;
    scan.examined = -1;
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid && notify->process[i].guarded)
            scan.killed[scan.known++] = notify->process[i].pid;
    }
    atomic_store(&scan.count, scan.known);
    scan.devices = notify->devices;
    scan.nodes = devices_nodes(&scan.devices, scan.node);
}

unsigned leftovers_kill(struct notify *notify, bool strict)
{
    uint64_t end_ns = clock_ns() + BOUND_NS;
    pthread_t thread;

    {
        MUTEX_SCOPE(&notify->lock);
        begin(notify, strict);
    }
    if (pthread_create(&thread, NULL, serve, NULL) != 0) {
        serve(NULL);
        return atomic_load(&scan.count) - scan.known;
    }
    for (;;) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(100 * NS_PER_MS);
        if (until.tv_nsec >= (long)NS_PER_S) {
            until.tv_nsec -= (long)NS_PER_S;
            until.tv_sec++;
        }
        if (pthread_timedjoin_np(thread, NULL, &until) == 0)
            break;
        kill_slow();
        if (clock_ns() >= end_ns) {
            pthread_detach(thread);
            break;
        }
    }
    return atomic_load(&scan.count) - scan.known;
}

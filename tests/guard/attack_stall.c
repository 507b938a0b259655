/*
 * Arguments in memory that the tenant's own file system provides late or never. A reader waits for
 * it. Only this instance may lose by that, until the process ends. The guard goes on with its other
 * work.
 *
 *   attack_stall WHAT
 *     resolve     the page comes after a while
 *     kill        the process is killed
 *     end         the command ends
 *     audit       the guard has something to find meanwhile: see attack_continued.c
 *     lent        the same, but the arguments name a file, and the guard waits when it closes that
 *     maps        the guard cannot read the process's map before an audit: one thread waits in a
 *                 page fault and holds a mapping, a second thread waits for that mapping and holds
 *                 the map's lock
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif

#define SKIP       77
#define FILE_BYTES 65536u
#define NODE       2
#define HANDLE     0x1001u
#define BLOCK      (64 * MIB)

static struct rmclient client;
static bool flush_stalls;     /* and nothing else, */
static bool write_stalls;     /* or this */
static unsigned serve_s = 60; /* so that nobody waits for ever, whatever the guard does */
static int stalling_fd;

/* With the process that serves the file system. */
static struct common {
    atomic_bool asked, resolved;
    pid_t program;
    char content[FILE_BYTES];
} * common;

/*
 * The file system: one file, the content of which comes once it is resolved. Served by a process of
 * its own, so that the end of who stalls there does not wait for itself.
 */

static void answer(int fuse, uint64_t unique, int error, const void *data, size_t bytes)
{
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof(header) + bytes), .error = error, .unique = unique};
    struct iovec parts[2] = {{&header, sizeof(header)}, {(void *)(uintptr_t)data, bytes}};

    if (writev(fuse, parts, 2) < 0)
        CHECK(errno == ENOENT);
}

static struct fuse_attr attributes(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .size = FILE_BYTES,
                              .mode = node == NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
                              .nlink = 1,
                              .blksize = 4096};
}

static void serve_read(int fuse, uint64_t unique, const struct fuse_read_in *wanted)
{
    uint64_t left = wanted->offset < FILE_BYTES ? FILE_BYTES - wanted->offset : 0;

    atomic_store(&common->asked, true);
    while (!atomic_load(&common->resolved))
        nap_ms(1);
    answer(fuse, unique, 0, common->content + wanted->offset,
           left < wanted->size ? left : wanted->size);
}

/* Of anybody but the program it is never answered. */
static void serve_flush(int fuse, const struct fuse_in_header *header)
{
    if (syscall(SYS_tgkill, common->program, header->pid, 0) == 0)
        answer(fuse, header->unique, 0, NULL, 0);
    else
        atomic_store(&common->asked, true);
}

static void serve_request(int fuse, const struct fuse_in_header *header, const void *in)
{
    switch (header->opcode) {
    case FUSE_INIT:
        answer(fuse, header->unique, 0,
               &(struct fuse_init_out){
                   .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = FILE_BYTES},
               sizeof(struct fuse_init_out));
        break;
    case FUSE_LOOKUP:
        answer(fuse, header->unique, 0,
               &(struct fuse_entry_out){
                   .nodeid = NODE, .entry_valid = 60, .attr_valid = 60, .attr = attributes(NODE)},
               sizeof(struct fuse_entry_out));
        break;
    case FUSE_GETATTR:
        answer(fuse, header->unique, 0,
               &(struct fuse_attr_out){.attr_valid = 60, .attr = attributes(header->nodeid)},
               sizeof(struct fuse_attr_out));
        break;
    case FUSE_OPEN:
        answer(fuse, header->unique, 0,
               &(struct fuse_open_out){.open_flags = flush_stalls ? 0 : FOPEN_NOFLUSH},
               sizeof(struct fuse_open_out));
        break;
    case FUSE_FLUSH:
        serve_flush(fuse, header);
        break;
    case FUSE_READ:
        serve_read(fuse, header->unique, in);
        break;
    case FUSE_WRITE: /* never answered: the page stays under writeback */
        atomic_store(&common->asked, true);
        break;
    case FUSE_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(fuse, header->unique, -ENOSYS, NULL, 0);
        break;
    }
}

/* Ends with its parent, and all that waits for it with it. */
static void serve(int fuse)
{
    static char request[FILE_BYTES + 4096] __attribute__((aligned(8)));

    if (attack_fork() != 0) {
        close(fuse);
        return;
    }
    close(STDERR_FILENO);
    close(STDOUT_FILENO);
    alarm(serve_s);
    while (read(fuse, request, sizeof(request)) > 0)
        serve_request(fuse, (const struct fuse_in_header *)request,
                      request + sizeof(struct fuse_in_header));
    _exit(0);
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

/* Namespaces of our own, in which we may mount. */
static bool enter_namespaces(void)
{
    char users[32], groups[32];

    snprintf(users, sizeof(users), "0 %d 1", (int)geteuid());
    snprintf(groups, sizeof(groups), "0 %d 1", (int)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/gid_map", groups);
}

/* NULL: we cannot have such a thing. */
static char *stalling_page(void)
{
    char path[256], options[64];
    char *page;
    int fd, fuse;

    snprintf(path, sizeof(path), "%s/stall", getenv("TEST_WORK"));
    mkdir(path, 0777);
    if (!enter_namespaces()) {
        fprintf(stderr, "skip: no right to make a user namespace in the guard\n");
        return NULL;
    }
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    if (fuse < 0 || mount("stall", path, "fuse.stall", MS_NOSUID | MS_NODEV, options) < 0) {
        fprintf(stderr, "skip: cannot mount FUSE in the guard\n");
        return NULL;
    }
    serve(fuse);
    strcat(path, "/file");
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    stalling_fd = fd;
    page = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, write_stalls ? MAP_SHARED : MAP_PRIVATE,
                fd, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static void *call_there(void *page)
{
    rmclient_call(client.ctl, RM_ESC_ALLOC, sizeof(struct rm_alloc), page);
    return NULL;
}

static void *lend(void *arg)
{
    uint64_t number = (uint64_t)stalling_fd;
    struct rm_alloc alloc = {.root = client.client,
                             .parent = client.client,
                             .class_id = RM_CLASS_MIG_MONITOR,
                             .params = (uintptr_t)&number,
                             .params_bytes = sizeof(number)};

    (void)arg;
    rmclient_call(client.ctl, RM_ESC_ALLOC, sizeof(alloc), &alloc);
    atomic_store(&common->asked, true); /* or not at all, if it did not come to that */
    return NULL;
}

static void await_asked(void)
{
    while (!atomic_load(&common->asked))
        nap_ms(1);
}

static int resolve(void)
{
    static struct rm_memory_params params = {.attr = ATTR_4K, .size = PAGE};
    struct rm_alloc alloc = {.root = client.client,
                             .parent = client.device,
                             .handle = HANDLE,
                             .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                             .params = (uintptr_t)&params};
    char *page = stalling_page();
    pthread_t thread;

    if (!page)
        return SKIP;
    CHECK_EQUAL(pthread_create(&thread, NULL, call_there, page), 0);
    await_asked();
    nap_ms(300);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    memcpy(common->content, &alloc, sizeof(alloc));
    atomic_store(&common->resolved, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(book(&client, 0).gpu_used, PAGE);
    attack_check_room(&client);
    attack_must_free(&client, HANDLE);
    return 0;
}

/* A thread that stalls for ever. False: it cannot. */
static bool begin(void)
{
    char *page = stalling_page();
    pthread_t thread;

    if (!page)
        return false;
    CHECK_EQUAL(pthread_create(&thread, NULL, flush_stalls ? lend : call_there, page), 0);
    await_asked();
    return true;
}

/* Others are served again once it is dead. */
static int be_killed(void)
{
    int ready[2], end;
    char byte = 0;
    pid_t child;

    CHECK_EQUAL(pipe2(ready, O_CLOEXEC), 0);
    child = attack_fork();
    if (child == 0) {
        if (!begin())
            _exit(SKIP);
        CHECK_EQUAL(write(ready[1], &byte, 1), 1);
        pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) == 1)
        CHECK_EQUAL(kill(child, SIGKILL), 0);
    end = finish(child);
    if (end == SKIP)
        return SKIP;
    CHECK_EQUAL(end, 1000 + SIGKILL);
    attack_check_room(&client);
    return 0;
}

/* The guard is busy with us, and yet finds it. */
static int be_found(void)
{
    attack_must_alloc(&client, attack_quota());
    attack_around(&client, BLOCK);
    if (!begin())
        return SKIP;
    nap_ms(20000);
    return 0;
}

static void *write_back(void *page)
{
    msync(page, 4096, MS_SYNC);
    return NULL;
}

static void *fault(void *page)
{
    *(volatile char *)page = 2; /* the page is clean and under writeback: it waits */
    return NULL;
}

static void *change(void *page)
{
    mprotect(page, 4096, PROT_READ);
    return NULL;
}

/* Gets memory around the guard, and then is not to be looked at: it lives on for some seconds. */
static int be_unseen(void)
{
    pthread_t thread;
    char *page;

    write_stalls = true;
    serve_s = 15;
    atomic_store(&common->resolved, true);
    attack_must_alloc(&client, attack_quota());
    page = stalling_page();
    if (!page)
        return SKIP;
    *(volatile char *)page = 1;
    atomic_store(&common->asked, false);
    CHECK_EQUAL(pthread_create(&thread, NULL, write_back, page), 0);
    await_asked();
    CHECK_EQUAL(pthread_create(&thread, NULL, fault, page), 0);
    nap_ms(50);
    attack_around(&client, BLOCK);
    CHECK_EQUAL(pthread_create(&thread, NULL, change, page), 0);
    for (unsigned i = 0; i < 10; i++) {
        nap_ms(1000);
        fprintf(stderr, "%u s unseen\n", i + 1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common != MAP_FAILED);
    common->program = getpid();
    attack_open(&client);
    if (strcmp(what, "resolve") == 0)
        return resolve();
    if (strcmp(what, "kill") == 0)
        return be_killed();
    if (strcmp(what, "maps") == 0)
        return be_unseen();
    flush_stalls = strcmp(what, "lent") == 0;
    if (flush_stalls || strcmp(what, "audit") == 0)
        return be_found();
    return begin() ? 0 : SKIP;
}

#include "unit.h"

#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define EXIT_SKIPPED 77

static char folder[PATH_MAX];
static pid_t folder_owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

static void remove_folder(void)
{
    if (getpid() == folder_owner)
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch(void)
{
    if (!folder[0]) {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        snprintf(folder, sizeof(folder), "%s/vgpu-unit-XXXXXX", base);
        if (!mkdtemp(folder))
            abort();
        folder_owner = getpid();
        atexit(remove_folder);
    }
    return folder;
}

const char *scratch_path(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];

    if (snprintf(path, PATH_MAX, "%s/%s", scratch(), name) >= PATH_MAX)
        abort();
    return path;
}

/* The kernel sends the signal when the thread that forked ends, so threads of a test do not call
 * this. A parent outside the child's PID namespace is process 0. */
pid_t spawn(int (*body)(void *arg), void *arg)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent && getppid() != 0)
            _exit(1);
        _exit(body(arg));
    }
    return pid;
}

int finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

struct vgpu_region *new_region(const char *name, uint64_t quota_bytes)
{
    struct vgpu_limits limits = {.name = "unit"};
    struct vgpu_region *region = NULL;
    const char *path = scratch_path(name);
    bool created = false;

    limits.vdev[0].quota_bytes = quota_bytes;
    unlink(path);
    if (region_create(path, NULL, &limits, &region, &created) != 0 || !created)
        abort();
    return region;
}

void nap_ms(unsigned ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&nap, NULL);
}

uint64_t snapshot_used(struct vgpu_region *region)
{
    struct vgpu_snapshot snapshot;
    uint64_t bytes;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    bytes = snapshot.vdev[0].used_bytes;
    snapshot_done(&snapshot);
    return bytes;
}

/* The linker makes an array of what TEST() puts into this section. */
extern const struct unit_test *const __start_unit_tests[], *const __stop_unit_tests[];
static unsigned skipped;

void count_skipped(void)
{
    skipped++;
}

static bool is_named(const struct unit_test *test, char *const *names)
{
    for (; *names; names++) {
        if (strcmp(*names, test->name) == 0)
            return true;
    }
    return false;
}

static bool needs_root(const struct unit_test *test)
{
    return strstr(test->labels, "root") && geteuid() != 0;
}

static void skip_for_root(void **state)
{
    (void)state;
    SKIP("root");
}

/* unit_SUBJECT [TEST...]: the named tests, or all. Exits with 77 if each of them was skipped.
 * unit_SUBJECT --list: a line "NAME LABEL..." for each. */
int main(int argc, char **argv)
{
    size_t all = (size_t)(__stop_unit_tests - __start_unit_tests), count = 0;
    struct CMUnitTest *tests = calloc(all, sizeof(*tests));
    bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    int failed;

    for (size_t i = 0; i < all && tests; i++) {
        const struct unit_test *test = __start_unit_tests[i];

        if (list)
            printf("%s %s\n", test->name, test->labels);
        else if (argc == 1 || is_named(test, argv + 1))
            tests[count++] =
                (struct CMUnitTest){test->name, needs_root(test) ? skip_for_root : test->body,
                                    test->fixtures[0], test->fixtures[1], NULL};
    }
    if (!tests || (argc > 1 && !list && count != (size_t)argc - 1)) {
        fprintf(stderr, "%s: no such test\n", argv[0]);
        return 2;
    }
    failed = list ? 0 : _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    free(tests);
    return failed ? failed : skipped && skipped == count ? EXIT_SKIPPED : 0;
}

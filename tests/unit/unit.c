#include "unit.h"

#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

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

pid_t spawn(int (*body)(void *arg), void *arg)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        _exit(body(arg));
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
    if (region_create(path, 0, &limits, &region, &created) != 0 || !created)
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

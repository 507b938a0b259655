/*
 * guarded FOLDER: makes an instance there as `vgpu run --guard --preload` would, whose guard keeps
 * the books of two processes: this one, and a child that has the library and says itself what it
 * holds. Prints the child's pid, then its own, and stays until its input ends.
 */
#include "account/ledger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define GIB  (1ULL << 30)
#define UUID "GPU-00000000-1111-2222-3333-444444444444"

static void require(int holds)
{
    if (holds)
        return;
    perror("guarded");
    exit(1);
}

static void hold(struct vgpu_ledger *ledger, enum vgpu_kind kind, uint64_t bytes)
{
    require(ledger_device(ledger, 0, UUID, 80 * GIB) == 0);
    ledger_set(ledger, 0, kind, bytes);
}

/* What the library says, in the process itself. */
static void be_child(const char *path, pid_t parent)
{
    struct vgpu_region *region;
    struct vgpu_ledger *ledger;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    require(getppid() == parent);
    require(region_open(path, 0, &region) == 0);
    require(ledger_new(region, 0, &ledger) == 0);
    hold(ledger, VGPU_KIND_CONTEXT, GIB / 2);
    hold(ledger, VGPU_KIND_DATA, GIB);
    hold(ledger, VGPU_KIND_MANAGED, GIB);
    printf("%ld %ld\n", (long)getpid(), (long)parent);
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    struct vgpu_limits limits = {.name = "guarded", .tier = VGPU_TIER_GUARD};
    struct vgpu_region *region;
    struct vgpu_ledger *own, *childs;
    pid_t parent = getpid(), child;
    char path[4096];
    bool created;

    if (argc != 2)
        return 2;
    snprintf(path, sizeof(path), "%s/region", argv[1]);
    limits.vdev[0].quota_bytes = 8 * GIB;
    require(region_create(path, NULL, &limits, &region, &created) == 0);
    child = fork();
    require(child >= 0);
    if (child == 0)
        be_child(path, parent);
    require(ledger_new_supervised(region, child, "child", &childs) == 0);
    require(ledger_new_supervised(region, parent, "parent", &own) == 0);
    hold(childs, VGPU_KIND_DRIVER, 2 * GIB);
    hold(childs, VGPU_KIND_MANAGED, GIB);
    hold(own, VGPU_KIND_DRIVER, 3 * GIB);
    while (getchar() != EOF)
        continue;
    return 0;
}

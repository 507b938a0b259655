/*
 * Fuzzing what a region's file can hold: the input is written over the region, beginning at the byte that its first
 * four say; then everything that reads a region is called. Numbers may be wrong; nothing may crash or hang.
 */
#include "base/clock.h"
#include "base/log.h"
#include "core/ledger_internal.h"
#include "core/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vgpu_region *region;
static struct region_layout *pristine;
static char path[64];
static uint64_t group;

static void prepare(void)
{
    struct vgpu_limits limits = {.name = "fuzz"};
    bool created;

    log_set_level(LOG_LEVEL_ERROR);
    limits.slice[0].quota_bytes = 1 << 20;
    snprintf(path, sizeof(path), "/dev/shm/vgpu-fuzz-%d", getpid());
    unlink(path);
    pristine = malloc(sizeof(*pristine));
    if (!pristine || region_create(path, 0, &limits, &region, &created) != 0)
        abort();
    limits.slice[0].quota_percent = 50;
    if (region_group_new(region, &limits, &group) != 0)
        abort();
    unlink(path);
    memcpy(pristine, region->layout, sizeof(*pristine));
}

static void use_everything(void)
{
    struct vgpu_proc_memory procs[4];
    struct vgpu_snapshot snapshot;
    struct vgpu_limits limits;
    struct vgpu_ledger *ledger;
    uint64_t total, available;

    if (ledger_new_in(region, group, &ledger) == 0) {
        if (ledger_reserve(ledger, 0, 4096) == 0)
            ledger_commit(ledger, 0, VGPU_KIND_DATA, 4096, 1000);
        ledger_set(ledger, 1, VGPU_KIND_CONTEXT, 5000);
        ledger_device(ledger, 2, "GPU-fuzz", 1 << 30);
        ledger_view(ledger, 0, 1 << 30, 1 << 30, &total, &available);
        if (total > 1 << 30 || available > 1 << 30)
            abort();
        ledger_refuse(ledger, 0, 77, "fuzz");
        ledger_processes(ledger, 0, procs, 4);
        ledger_release(ledger, 0, VGPU_KIND_DATA, 2000);
        ledger_free(ledger);
    }
    if (region_snapshot(region, &snapshot) == 0) {
        if (snapshot.proc_count > VGPU_PROCS_MAX || snapshot.refusal_count > VGPU_REFUSALS)
            abort();
        snapshot_done(&snapshot);
    }
    region_group_limits(region, group, &limits);
    meter_settings(region);
    region_limits(region, &limits);
    region_adopt_limits(region, &limits);
    region_in_use(region);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t start_ns = clock_ns();
    uint32_t offset;

    if (!region)
        prepare();
    if (size < sizeof(offset))
        return 0;
    memcpy(&offset, data, sizeof(offset));
    offset %= sizeof(*pristine);
    size -= sizeof(offset);
    if (size > sizeof(*pristine) - offset)
        size = sizeof(*pristine) - offset;
    memcpy(region->layout, pristine, sizeof(*pristine));
    memcpy((char *)region->layout + offset, data + sizeof(offset), size);
    use_everything();
    if (clock_ns() - start_ns > 10 * NS_PER_S)
        abort();
    return 0;
}

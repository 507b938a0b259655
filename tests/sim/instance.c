/*
 * Makes and examines instances for the tests, through src/region alone.
 *
 *   instance create DIR QUOTA[,QUOTA..] [HOST] [UUID,UUID..]   a quota is bytes, or a percentage with %; - or 0: none
 *   instance check DIR     exit status 0 where no process is attached and nothing is held; else says what is
 *   instance show DIR      slices, processes and refusals, one record a line: words, then key=value
 *
 * A program of its own, because a process that opens and closes a region's lock file gives up its own record locks.
 */
#include "region/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void parse_quotas(char *text, struct vgpu_limits *limits)
{
    unsigned slice = 0;
    for (char *word = strtok(text, ","); word && slice < VGPU_DEVICES_MAX; word = strtok(NULL, ","), slice++) {
        char *end = NULL;
        unsigned long long value = strtoull(word, &end, 10);
        if (*end == '%')
            limits->slice[slice].quota_percent = (uint32_t)value;
        else
            limits->slice[slice].quota_bytes = value;
    }
}

static void parse_devices(char *text, struct vgpu_limits *limits)
{
    for (char *word = strtok(text, ","); word && limits->device_count < VGPU_DEVICES_MAX; word = strtok(NULL, ","))
        snprintf(limits->slice[limits->device_count++].uuid, VGPU_UUID_LEN, "%s", word);
}

static int create(const char *path, int argc, char **argv)
{
    static struct vgpu_limits limits;
    snprintf(limits.name, sizeof limits.name, "test");
    parse_quotas(argv[3], &limits);
    if (argc > 4)
        limits.slice[VGPU_SLICE_HOST].quota_bytes = strtoull(argv[4], NULL, 10);
    if (argc > 5)
        parse_devices(argv[5], &limits);
    struct vgpu_region *region = NULL;
    bool created = false;
    int error = region_create(path, 0, &limits, &region, &created);
    if (error || !created) {
        fprintf(stderr, "instance: %s: %s\n", path, error ? strerror(-error) : "exists already");
        return 2;
    }
    region_close(region);
    return 0;
}

static int check(const struct vgpu_snapshot *snapshot)
{
    int bad = 0;
    for (unsigned i = 0; i < snapshot->proc_count; i++) {
        fprintf(stderr, "instance: process %d (%s) is still attached\n", snapshot->procs[i].own_pid,
                snapshot->procs[i].command);
        bad = 1;
    }
    for (unsigned slice = 0; slice < VGPU_SLICES; slice++) {
        if (snapshot->slice[slice].used_bytes) {
            fprintf(stderr, "instance: slice %u: %" PRIu64 " bytes still held\n", slice,
                    snapshot->slice[slice].used_bytes);
            bad = 1;
        }
    }
    return bad;
}

static int show(const struct vgpu_snapshot *snapshot)
{
    for (unsigned slice = 0; slice < VGPU_SLICES; slice++)
        printf("slice %u quota=%" PRIu64 " used=%" PRIu64 " refusals=%" PRIu64 " uuid=%s\n", slice,
               snapshot->slice[slice].quota_bytes, snapshot->slice[slice].used_bytes, snapshot->slice[slice].refusals,
               snapshot->slice[slice].uuid);
    for (unsigned i = 0; i < snapshot->proc_count; i++)
        for (unsigned slice = 0; slice < VGPU_SLICES; slice++) {
            const struct vgpu_proc_usage *proc = &snapshot->procs[i];
            uint64_t held = 0;
            for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
                held += proc->held_bytes[slice][kind];
            if (slice != 0 && held == 0)
                continue;
            printf("proc %d slice=%u held=%" PRIu64, proc->own_pid, slice, held);
            for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
                if (proc->held_bytes[slice][kind])
                    printf(" %s=%" PRIu64, vgpu_kind_name(kind), proc->held_bytes[slice][kind]);
            putchar('\n');
        }
    for (unsigned i = 0; i < snapshot->refusal_count; i++)
        printf("refusal %s slice=%u size=%" PRIu64 " pid=%d\n", snapshot->refusals[i].api, snapshot->refusals[i].slice,
               snapshot->refusals[i].size_bytes, snapshot->refusals[i].pid);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: instance create|check|show DIR ...\n");
        return 2;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/region", argv[2]);
    if (!strcmp(argv[1], "create") && argc > 3) {
        if (mkdir(argv[2], 0700) && errno != EEXIST)
            return 2;
        return create(path, argc, argv);
    }
    struct vgpu_region *region = NULL;
    static struct vgpu_snapshot snapshot;
    int error = region_open(path, 0, &region);
    if (error || (error = region_snapshot(region, &snapshot))) {
        fprintf(stderr, "instance: %s: %s\n", path, strerror(-error));
        return 2;
    }
    int status = strcmp(argv[1], "check") ? show(&snapshot) : check(&snapshot);
    snapshot_done(&snapshot);
    region_close(region);
    return status;
}

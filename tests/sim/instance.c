/*
 * Makes and examines instances for the tests, through src/region alone.
 *
 *   instance create DIR QUOTA[,QUOTA..] [HOST] [UUID,UUID..] [SETTING...]
 *                          a quota is bytes, or a percentage with %; - or 0: none
 *   instance set DIR SETTING...   changes settings of one that may be in use
 *   instance check DIR     exits with 0 if no process is attached and none holds memory; otherwise
 *                          prints what is left
 *   instance show DIR      vdevs, their compute, processes and refusals, one record a line: words,
 *                          then key=value
 *
 * SETTING: cores=PERCENT[,PERCENT..] by vdev, the last one for the rest as well; cap_policy=N,
 * weight=N, priority=N, turn_policy=N, copy_bytes_s=N as in struct vgpu_compute. The instance's
 * name is that of its folder.
 *
 * A program of its own, because a process that opens and closes a region's lock file gives up its
 * own record locks.
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
    unsigned vdev = 0;
    for (char *word = strtok(text, ","); word && vdev < VGPU_DEVICES_MAX;
         word = strtok(NULL, ","), vdev++) {
        char *end = NULL;
        unsigned long long value = strtoull(word, &end, 10);
        if (*end == '%')
            limits->vdev[vdev].quota_percent = (uint32_t)value;
        else
            limits->vdev[vdev].quota_bytes = value;
    }
}

static void parse_devices(char *text, struct vgpu_limits *limits)
{
    for (char *word = strtok(text, ","); word && limits->device_count < VGPU_DEVICES_MAX;
         word = strtok(NULL, ","))
        snprintf(limits->vdev[limits->device_count++].uuid, VGPU_UUID_LEN, "%s", word);
}

static void parse_caps(const char *text, struct vgpu_limits *limits)
{
    uint32_t percent = 0;
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        if (*text)
            percent = (uint32_t)strtoul(text, (char **)&text, 10);
        text += *text == ',';
        limits->vdev[vdev].cap_percent = percent;
    }
}

static bool parse_setting(const char *setting, struct vgpu_limits *limits)
{
    struct vgpu_compute *compute = &limits->compute;
    const struct {
        const char *name;
        uint32_t *value;
    } numbers[] = {{"cap_policy", &compute->cap_policy},
                   {"weight", &compute->weight},
                   {"priority", &compute->priority},
                   {"turn_policy", &compute->turn_policy}};
    const char *value = strchr(setting, '=');
    size_t length = value ? (size_t)(value++ - setting) : 0;
    for (unsigned i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
        if (!strncmp(setting, numbers[i].name, length) && !numbers[i].name[length]) {
            *numbers[i].value = (uint32_t)strtoul(value, NULL, 10);
            return true;
        }
    if (value && !strncmp(setting, "cores=", 6))
        parse_caps(value, limits);
    else if (value && !strncmp(setting, "copy_bytes_s=", 13))
        compute->copy_bytes_s = strtoull(value, NULL, 10);
    else
        return false;
    return true;
}

static bool parse_settings(int argc, char **argv, struct vgpu_limits *limits)
{
    for (int i = 0; i < argc; i++)
        if (!parse_setting(argv[i], limits)) {
            fprintf(stderr, "instance: %s: no such setting\n", argv[i]);
            return false;
        }
    return true;
}

static int create(const char *path, int argc, char **argv)
{
    static struct vgpu_limits limits;
    const char *name = strrchr(argv[2], '/');
    int at = 4;
    snprintf(limits.name, sizeof limits.name, "%s", name ? name + 1 : argv[2]);
    parse_quotas(argv[3], &limits);
    if (at < argc && !strchr(argv[at], '='))
        limits.vdev[VGPU_VDEV_HOST].quota_bytes = strtoull(argv[at++], NULL, 10);
    if (at < argc && !strchr(argv[at], '='))
        parse_devices(argv[at++], &limits);
    if (!parse_settings(argc - at, argv + at, &limits))
        return 2;
    struct vgpu_region *region = NULL;
    bool created = false;
    int error = region_create(path, NULL, &limits, &region, &created);
    if (error || !created) {
        fprintf(stderr, "instance: %s: %s\n", path, error ? strerror(-error) : "exists already");
        return 2;
    }
    region_close(region);
    return 0;
}

static int set(struct vgpu_region *region, int argc, char **argv)
{
    static struct vgpu_limits limits;
    region_limits(region, &limits);
    if (!parse_settings(argc, argv, &limits))
        return 2;
    int error = region_set_limits(region, &limits);
    if (error)
        fprintf(stderr, "instance: set: %s\n", strerror(-error));
    return error ? 2 : 0;
}

static int check(const struct vgpu_snapshot *snapshot)
{
    int bad = 0;
    for (unsigned i = 0; i < snapshot->proc_count; i++) {
        fprintf(stderr, "instance: process %d (%s) is still attached\n", snapshot->procs[i].own_pid,
                snapshot->procs[i].command);
        bad = 1;
    }
    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++) {
        if (snapshot->vdev[vdev].used_bytes) {
            fprintf(stderr, "instance: vdev %u: %" PRIu64 " bytes still held\n", vdev,
                    snapshot->vdev[vdev].used_bytes);
            bad = 1;
        }
    }
    return bad;
}

static void show_compute(unsigned vdev, const struct vgpu_compute_usage *usage)
{
    uint64_t calls = 0, gpu_ns = 0;
    for (unsigned work = 0; work < VGPU_WORKS; work++) {
        calls += vgpu_work_is_time(work) ? usage->calls[work] : 0;
        gpu_ns += vgpu_work_is_time(work) ? usage->amount[work] : 0;
    }
    if (!calls && !gpu_ns && !usage->amount[VGPU_WORK_HTOD] && !usage->amount[VGPU_WORK_DTOH])
        return;
    printf("compute %u calls=%" PRIu64 " gpu_ns=%" PRIu64 " throttles=%" PRIu64
           " throttled_ns=%" PRIu64 " turns=%" PRIu64 " turn_wait_ns=%" PRIu64
           " copy_wait_ns=%" PRIu64,
           vdev, calls, gpu_ns, usage->throttles, usage->throttled_ns, usage->turns,
           usage->turn_wait_ns, usage->copy_wait_ns);
    for (unsigned work = 0; work < VGPU_WORKS; work++)
        printf(" %s=%" PRIu64 " %s_calls=%" PRIu64, vgpu_work_name(work), usage->amount[work],
               vgpu_work_name(work), usage->calls[work]);
    putchar('\n');
}

static int show(const struct vgpu_snapshot *snapshot)
{
    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++)
        printf("vdev %u quota=%" PRIu64 " used=%" PRIu64 " refusals=%" PRIu64 " cap=%u uuid=%s\n",
               vdev, snapshot->vdev[vdev].quota_bytes, snapshot->vdev[vdev].used_bytes,
               snapshot->vdev[vdev].refusals, snapshot->limits.vdev[vdev].cap_percent,
               snapshot->vdev[vdev].uuid);
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        show_compute(vdev, &snapshot->vdev[vdev].compute);
    for (unsigned i = 0; i < snapshot->proc_count; i++)
        for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++) {
            const struct vgpu_proc_usage *proc = &snapshot->procs[i];
            uint64_t held = 0;
            for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
                held += proc->held_bytes[vdev][kind];
            if (vdev != 0 && held == 0)
                continue;
            printf("proc %d vdev=%u held=%" PRIu64, proc->own_pid, vdev, held);
            for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
                if (proc->held_bytes[vdev][kind])
                    printf(" %s=%" PRIu64, vgpu_kind_name(kind), proc->held_bytes[vdev][kind]);
            putchar('\n');
        }
    for (unsigned i = 0; i < snapshot->refusal_count; i++)
        printf("refusal %s vdev=%u size=%" PRIu64 " pid=%d\n", snapshot->refusals[i].api,
               snapshot->refusals[i].vdev, snapshot->refusals[i].size_bytes,
               snapshot->refusals[i].pid);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: instance create|set|check|show DIR ...\n");
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
    if (!error && !strcmp(argv[1], "set"))
        return set(region, argc - 3, argv + 3);
    if (error || (error = region_snapshot(region, &snapshot))) {
        fprintf(stderr, "instance: %s: %s\n", path, strerror(-error));
        return 2;
    }
    int status = strcmp(argv[1], "check") ? show(&snapshot) : check(&snapshot);
    snapshot_done(&snapshot);
    region_close(region);
    return status;
}

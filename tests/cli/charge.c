/*
 * charge REGION DEVICE NAME=VALUE...: writes what processes with work on a device would write to
 * their region, so that what `vgpu` shows can be compared with it. NAME: <kind of work>.calls,
 * <kind of work>.amount, throttles, throttled_ns, turns, turn_wait_ns, copy_wait_ns (added to what
 * is there); now_ns: GPU time of the last second, all of it in the tenth that is under way; uuid:
 * the device's.
 */
#include "base/clock.h"
#include "region/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t *word_of(struct region_compute *compute, const char *name)
{
    char text[64];

    for (unsigned work = 0; work < VGPU_WORKS; work++) {
        snprintf(text, sizeof(text), "%s.calls", vgpu_work_name(work));
        if (!strcmp(name, text))
            return &compute->calls[work];
        snprintf(text, sizeof(text), "%s.amount", vgpu_work_name(work));
        if (!strcmp(name, text))
            return &compute->amount[work];
    }
    return !strcmp(name, "throttles")      ? &compute->throttles
           : !strcmp(name, "throttled_ns") ? &compute->throttled_ns
           : !strcmp(name, "turns")        ? &compute->turns
           : !strcmp(name, "turn_wait_ns") ? &compute->turn_wait_ns
           : !strcmp(name, "copy_wait_ns") ? &compute->copy_wait_ns
                                           : NULL;
}

static void set_now(struct region_compute *compute, uint64_t ns)
{
    uint64_t span = clock_ns() / REGION_SPAN_NS;

    for (unsigned i = 0; i < REGION_SPANS; i++)
        store_relaxed(&compute->span_ns[i], i == span % REGION_SPANS ? ns : 0);
    store_relaxed(&compute->span_stamp[span % REGION_SPANS], span);
}

int main(int argc, char **argv)
{
    struct vgpu_region *region;

    if (argc < 3 || region_open(argv[1], 0, &region) ||
        strtoul(argv[2], NULL, 10) >= VGPU_DEVICES_MAX)
        return 2;
    for (int i = 3; i < argc; i++) {
        struct region_vdev *vdev = &region->layout->vdev[strtoul(argv[2], NULL, 10)];
        char *value = strchr(argv[i], '=');
        _Atomic uint64_t *word;

        if (!value)
            return 2;
        *value++ = '\0';
        word = word_of(&vdev->compute, argv[i]);
        if (word)
            atomic_fetch_add(word, strtoull(value, NULL, 10));
        else if (!strcmp(argv[i], "now_ns"))
            set_now(&vdev->compute, strtoull(value, NULL, 10));
        else if (!strcmp(argv[i], "uuid"))
            snprintf(vdev->limit.uuid, sizeof(vdev->limit.uuid), "%s", value);
        else
            return 2;
    }
    region_close(region);
    return 0;
}

#include "guard/nvidia/vdevs.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "account/vdev.h"
#include "guard/notify/ratelimit.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define PAUSE_TRIES  50 /* within the time for which `vgpu pause` waits for an answer */
#define PAUSE_NAP_NS (10 * NS_PER_MS)

static struct rm_device *find_device(struct nvidia *nvidia, uint32_t client, uint32_t device)
{
    for (unsigned i = 0; i < nvidia->rm_devices_high; i++) {
        if (nvidia->rm_device[i].device == device && nvidia->rm_device[i].client == client)
            return &nvidia->rm_device[i];
    }
    return NULL;
}

static void remember_device(struct nvidia *nvidia, uint32_t client, uint32_t device, unsigned vdev)
{
    for (unsigned i = 0; i < RM_DEVICES_MAX; i++) {
        if (nvidia->rm_device[i].device)
            continue;
        nvidia->rm_device[i] = (struct rm_device){.client = client, .device = device, .vdev = vdev};
        if (i >= nvidia->rm_devices_high)
            nvidia->rm_devices_high = i + 1;
        return;
    }
}

static int make_subdevice(struct rm_device *entry, const struct guard_file *file)
{
    uint32_t subdevice;

    if (!entry->subdevice &&
        rm_alloc_subdevice(file->fd, entry->client, entry->device, &subdevice) == RM_OK)
        entry->subdevice = subdevice;
    return entry->subdevice ? 0 : -ENODEV;
}

int vdevs_subdevice(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                    uint32_t device, uint32_t *ret_subdevice)
{
    struct rm_device *entry = find_device(nvidia, client, device);
    int rc;

    if (!entry)
        return -ENODEV;
    if (!entry->subdevice && objects_subdevice(nvidia->objects, client, device, ret_subdevice) == 0)
        return 0;
    rc = make_subdevice(entry, file);
    *ret_subdevice = entry->subdevice;
    return rc;
}

int vdevs_let_go(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                 uint32_t subdevice)
{
    struct rm_device *entry;
    uint32_t device, class_id;
    int rc;

    /* Most frees do not wait for the channels' lock, which is held while they are switched. */
    if (objects_class(nvidia->objects, client, subdevice, &class_id) < 0 ||
        class_id != RM_CLASS_SUBDEVICE || !channels_use(nvidia->channels, client, subdevice))
        return 0;
    if (objects_device(nvidia->objects, client, subdevice, &device) < 0)
        return -ENODEV;
    entry = find_device(nvidia, client, device);
    rc = entry ? make_subdevice(entry, file) : -ENODEV;
    if (rc == 0)
        channels_use_other(nvidia->channels, client, subdevice, entry->subdevice);
    return rc;
}

bool vdevs_own(const struct nvidia *nvidia, uint32_t client, uint32_t object)
{
    for (unsigned i = 0; i < nvidia->rm_devices_high; i++) {
        if (nvidia->rm_device[i].device && nvidia->rm_device[i].client == client &&
            nvidia->rm_device[i].subdevice && nvidia->rm_device[i].subdevice == object)
            return true;
    }
    return false;
}

void vdevs_forget_device(struct nvidia *nvidia, uint32_t client, uint32_t device)
{
    struct rm_device *entry = find_device(nvidia, client, device);

    if (entry)
        *entry = (struct rm_device){0};
}

/* A subdevice of the client's device: one that the program has, or one that is made and freed
 * again. */
static int borrow_subdevice(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                            uint32_t device, uint32_t *ret_subdevice, bool *ret_made)
{
    *ret_made = false;
    if (objects_subdevice(nvidia->objects, client, device, ret_subdevice) == 0)
        return 0;
    if (rm_alloc_subdevice(file->fd, client, device, ret_subdevice) != RM_OK)
        return -ENODEV;
    *ret_made = true;
    return 0;
}

static void return_subdevice(const struct guard_file *file, uint32_t client, uint32_t device,
                             uint32_t subdevice)
{
    if (rm_free(file->fd, client, device, subdevice) != RM_OK)
        log_warning("guard: a subdevice that was made to ask for a GPU's UUID could not be freed");
}

int vdevs_uuid(int fd, uint32_t client, uint32_t subdevice, uint8_t ret_uuid[16])
{
    struct rm_gid_info gid = {.flags = RM_GID_BINARY};
    int rc = rm_control(fd, client, subdevice, RM_CTRL_GPU_GET_GID_INFO, &gid, sizeof(gid));

    if (rc != RM_OK || gid.length < 16)
        return -ENODEV;
    memcpy(ret_uuid, gid.data, 16);
    return 0;
}

static uint64_t ask_size(const struct nvidia *nvidia, const struct guard_file *file,
                         uint32_t client, uint32_t subdevice)
{
    struct rm_fb_info info = {.count = 1, .item = {{.index = RM_FB_HEAP_SIZE}}};
    int rc = rm_control(file->fd, client, subdevice, RM_CTRL_FB_GET_INFO_V2, &info,
                        nvidia->branch->fb_info_bytes);

    return rc == RM_OK ? (uint64_t)info.item[0].value * 1024 : 0;
}

static bool is_free(const struct nvidia *nvidia, unsigned vdev)
{
    return !atomic_load(&nvidia->device[vdev].known) && !nvidia->limits.vdev[vdev].uuid[0];
}

/*
 * The vdev for a device that has none yet: by the limits as they were given; if those name no
 * devices, a free one. That is the one under which the region shows it, if a library in the program
 * has numbered the devices, else the first.
 */
static int choose_vdev(const struct nvidia *nvidia, struct vgpu_ledger *ledger, const char *uuid,
                       unsigned *ret_vdev)
{
    if (limits_vdev(&nvidia->limits, uuid, ret_vdev) == 0)
        return 0;
    if (nvidia->limits.device_count)
        return -ENODEV;
    if (ledger && vdev_find(ledger, uuid, ret_vdev) == 0 && *ret_vdev < VGPU_DEVICES_MAX &&
        is_free(nvidia, *ret_vdev))
        return 0;
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (!is_free(nvidia, i))
            continue;
        *ret_vdev = i;
        return 0;
    }
    return -ENODEV;
}

/* Binds a device to a vdev for good: a program can write what it likes into the region. */
static int bind_device(struct nvidia *nvidia, struct vgpu_ledger *ledger, const uint8_t uuid[16],
                       uint64_t physical_bytes, unsigned *ret_vdev)
{
    char text[VGPU_UUID_LEN];
    struct guarded_device *device;
    int rc;

    vdev_uuid_text("GPU", uuid, text);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        *ret_vdev = i;
        if (atomic_load(&nvidia->device[i].known) && strcmp(nvidia->device[i].uuid_text, text) == 0)
            return 0;
    }
    rc = choose_vdev(nvidia, ledger, text, ret_vdev);
    if (rc < 0)
        return rc;
    device = &nvidia->device[*ret_vdev];
    device->physical_bytes = physical_bytes;
    memcpy(device->uuid_text, text, sizeof(device->uuid_text));
    atomic_store(&device->known, true);
    if (ledger)
        ledger_device(ledger, *ret_vdev, text, physical_bytes);
    return 0;
}

static int ask_vdev(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                    uint32_t device, unsigned *ret_vdev)
{
    struct vgpu_ledger *ledger = process_any_ledger(nvidia->notify);
    uint64_t physical_bytes = 0;
    uint32_t subdevice;
    uint8_t uuid[16];
    bool made;
    int rc = borrow_subdevice(nvidia, file, client, device, &subdevice, &made);

    if (rc < 0)
        return -ENODEV;
    rc = vdevs_uuid(file->fd, client, subdevice, uuid);
    if (rc == 0)
        physical_bytes = ask_size(nvidia, file, client, subdevice);
    if (made)
        return_subdevice(file, client, device, subdevice);
    return rc < 0 ? rc : bind_device(nvidia, ledger, uuid, physical_bytes, ret_vdev);
}

int vdevs_find(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
               uint32_t object, unsigned *ret_vdev)
{
    const struct rm_device *entry;
    uint32_t device;
    int rc = objects_device(nvidia->objects, client, object, &device);

    if (rc < 0)
        return -ENODEV;
    entry = find_device(nvidia, client, device);
    if (entry) {
        *ret_vdev = entry->vdev;
        return 0;
    }
    rc = ask_vdev(nvidia, file, client, device, ret_vdev);
    if (rc == 0)
        remember_device(nvidia, client, device, *ret_vdev);
    return rc;
}

static int share_set(void *arg, enum share_switch to)
{
    struct guarded_device *device = arg;

    return channels_set(device->nvidia->channels, (unsigned)(device - device->nvidia->device), to);
}

static int share_probe(void *arg, bool stop, struct share_probe *ret_probe)
{
    struct guarded_device *device = arg;

    return channels_probe(device->nvidia->channels, (unsigned)(device - device->nvidia->device),
                          stop, ret_probe);
}

static void *serve(void *arg)
{
    struct guarded_device *device = arg;

    while (!atomic_load(&device->nvidia->notify->ending))
        share_wait(device->kept, share_step(device->kept));
    return NULL;
}

/* It takes no signals but its own faults (bus.h), unlike the trap thread, which starts it. */
static int start_thread(struct guarded_device *device)
{
    sigset_t set, before;
    int rc;

    sigfillset(&set);
    sigdelset(&set, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &set, &before);
    rc = -pthread_create(&device->thread, NULL, serve, device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int vdevs_begin_share(struct nvidia *nvidia, unsigned vdev)
{
    static const struct share_ops ops = {.set = share_set, .probe = share_probe};
    struct guarded_device *device = &nvidia->device[vdev];
    const struct share_self self = {.region = nvidia->notify->region,
                                    .vdev = vdev,
                                    .id = nvidia->instance_id,
                                    .name = nvidia->limits.name,
                                    .uuid = device->uuid_text};
    const struct share_limits limits = {.compute = nvidia->limits.compute,
                                        .cap_percent = nvidia->limits.vdev[vdev].cap_percent};
    struct share *share;
    int rc;

    if (!nvidia->shares || device->share)
        return 0;
    device->nvidia = nvidia;
    rc = share_new(&self, &limits, &ops, device, &share);
    if (rc < 0)
        return rc;
    device->kept = share;
    rc = start_thread(device);
    if (rc < 0) {
        share_free(share);
        return rc;
    }
    atomic_store(&device->share, share);
    if (atomic_load(&nvidia->paused))
        share_pause(share, true);
    return 0;
}

void vdevs_done(struct nvidia *nvidia)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct guarded_device *device = &nvidia->device[i];

        if (!device->share)
            continue;
        share_poke(device->share);
        pthread_join(device->thread, NULL);
        share_free(device->share);
        device->share = NULL;
    }
}

/* Whether all channels are as they should be. */
static bool pause_once(struct nvidia *nvidia, bool pause)
{
    bool done = true;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct share *share = atomic_load(&nvidia->device[i].share);
        int rc = share ? share_pause(share, pause) : 0;

        done = done && rc == 0;
        if (rc < 0)
            log_ratelimited("guard: channels on %s could not be switched at once (%s)",
                            nvidia->device[i].uuid_text, strerror(-rc));
    }
    return done;
}

int vdevs_pause(void *arg, bool pause)
{
    struct nvidia *nvidia = arg;
    const struct timespec nap = {.tv_nsec = PAUSE_NAP_NS};
    bool done = false;

    /* If the library keeps the devices' time, nothing is switched, and so nothing stands. */
    if (!nvidia->shares)
        return pause ? -EOPNOTSUPP : 0;
    atomic_store(&nvidia->paused, pause); /* first: vdevs_begin_share() looks there */
    for (unsigned i = 0; i < PAUSE_TRIES && !done; i++) {
        if (i)
            nanosleep(&nap, NULL);
        done = pause_once(nvidia, pause);
    }
    if (!done && pause) {
        /* A pause that failed must not come into force later. */
        atomic_store(&nvidia->paused, false);
        pause_once(nvidia, false);
        return -EIO;
    }
    region_stand(nvidia->notify->region, pause);
    return done ? 0 : -EIO;
}

void vdevs_pause_again(struct nvidia *nvidia)
{
    if (atomic_load(&nvidia->paused))
        pause_once(nvidia, true);
}

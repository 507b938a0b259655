/* The cards that programs of the instance use: which vdev each is, and its share. */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "account/vdev.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static struct guard_device *find_device(struct guard *guard, uint32_t client, uint32_t device)
{
    for (unsigned i = 0; i < guard->devices_high; i++) {
        if (guard->device[i].device == device && guard->device[i].client == client)
            return &guard->device[i];
    }
    return NULL;
}

static void remember_device(struct guard *guard, uint32_t client, uint32_t device, unsigned vdev)
{
    for (unsigned i = 0; i < GUARD_DEVICES_MAX; i++) {
        if (guard->device[i].device)
            continue;
        guard->device[i] = (struct guard_device){.client = client, .device = device, .vdev = vdev};
        if (i >= guard->devices_high)
            guard->devices_high = i + 1;
        return;
    }
}

static int make_subdevice(struct guard_device *entry, const struct guard_file *file)
{
    uint32_t subdevice;

    if (!entry->subdevice &&
        rm_alloc_subdevice(file->fd, entry->client, entry->device, &subdevice) == RM_OK)
        entry->subdevice = subdevice;
    return entry->subdevice ? 0 : -ENODEV;
}

int cards_subdevice(struct guard *guard, const struct guard_file *file, uint32_t client,
                    uint32_t device, uint32_t *ret_subdevice)
{
    struct guard_device *entry = find_device(guard, client, device);
    int rc;

    if (!entry)
        return -ENODEV;
    if (!entry->subdevice && objects_subdevice(guard->objects, client, device, ret_subdevice) == 0)
        return 0;
    rc = make_subdevice(entry, file);
    *ret_subdevice = entry->subdevice;
    return rc;
}

int cards_let_go(struct guard *guard, const struct guard_file *file, uint32_t client,
                 uint32_t subdevice)
{
    struct guard_device *entry;
    uint32_t device, class_id;
    int rc;

    /* The channels' lock is held while they are switched: most frees do not wait for that. */
    if (objects_class(guard->objects, client, subdevice, &class_id) < 0 ||
        class_id != RM_CLASS_SUBDEVICE || !channels_use(guard->channels, client, subdevice))
        return 0;
    if (objects_device(guard->objects, client, subdevice, &device) < 0)
        return -ENODEV;
    entry = find_device(guard, client, device);
    rc = entry ? make_subdevice(entry, file) : -ENODEV;
    if (rc == 0)
        channels_use_other(guard->channels, client, subdevice, entry->subdevice);
    return rc;
}

bool cards_own(const struct guard *guard, uint32_t client, uint32_t object)
{
    for (unsigned i = 0; i < guard->devices_high; i++) {
        if (guard->device[i].device && guard->device[i].client == client &&
            guard->device[i].subdevice && guard->device[i].subdevice == object)
            return true;
    }
    return false;
}

void cards_forget_device(struct guard *guard, uint32_t client, uint32_t device)
{
    struct guard_device *entry = find_device(guard, client, device);

    if (entry)
        *entry = (struct guard_device){0};
}

/* A subdevice of the client's device: one that the program has, or one that is made for as long as
 * it is needed. */
static int borrow_subdevice(struct guard *guard, const struct guard_file *file, uint32_t client,
                            uint32_t device, uint32_t *ret_subdevice, bool *ret_made)
{
    *ret_made = false;
    if (objects_subdevice(guard->objects, client, device, ret_subdevice) == 0)
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
        log_warning("guard: a subdevice that was made to ask for a card's UUID could not be freed");
}

int card_uuid(int fd, uint32_t client, uint32_t subdevice, uint8_t ret_uuid[16])
{
    struct rm_gid_info gid = {.flags = RM_GID_BINARY};
    int rc = rm_control(fd, client, subdevice, RM_CTRL_GPU_GET_GID_INFO, &gid, sizeof(gid));

    if (rc != RM_OK || gid.length < 16)
        return -ENODEV;
    memcpy(ret_uuid, gid.data, 16);
    return 0;
}

static uint64_t ask_size(const struct guard *guard, const struct guard_file *file, uint32_t client,
                         uint32_t subdevice)
{
    struct rm_fb_info info = {.count = 1, .item = {{.index = RM_FB_HEAP_SIZE}}};
    int rc = rm_control(file->fd, client, subdevice, RM_CTRL_FB_GET_INFO_V2, &info,
                        guard->branch->fb_info_bytes);

    return rc == RM_OK ? (uint64_t)info.item[0].value * 1024 : 0;
}

static bool is_free(const struct guard *guard, unsigned vdev)
{
    return !atomic_load(&guard->card[vdev].known) && !guard->limits.vdev[vdev].uuid[0];
}

/*
 * The vdev that a card gets which has none yet: by the limits as they were given, or, where those
 * name no cards, a free one: the one that people are told it is, if a library in the program has
 * numbered the cards, else the first.
 */
static int choose_vdev(const struct guard *guard, struct vgpu_ledger *ledger, const char *uuid,
                       unsigned *ret_vdev)
{
    if (limits_vdev(&guard->limits, uuid, ret_vdev) == 0)
        return 0;
    if (guard->limits.device_count)
        return -ENODEV;
    if (ledger && vdev_find(ledger, uuid, ret_vdev) == 0 && *ret_vdev < VGPU_DEVICES_MAX &&
        is_free(guard, *ret_vdev))
        return 0;
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (!is_free(guard, i))
            continue;
        *ret_vdev = i;
        return 0;
    }
    return -ENODEV;
}

/* The vdev of a card, once and for all: programs may write whatever they like where people read
 * it. */
static int bind_card(struct guard *guard, struct vgpu_ledger *ledger, const uint8_t uuid[16],
                     uint64_t physical_bytes, unsigned *ret_vdev)
{
    char text[VGPU_UUID_LEN];
    struct guard_card *card;
    int rc;

    vdev_uuid_text("GPU", uuid, text);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        *ret_vdev = i;
        if (atomic_load(&guard->card[i].known) && strcmp(guard->card[i].uuid_text, text) == 0)
            return 0;
    }
    rc = choose_vdev(guard, ledger, text, ret_vdev);
    if (rc < 0)
        return rc;
    card = &guard->card[*ret_vdev];
    card->physical_bytes = physical_bytes;
    memcpy(card->uuid_text, text, sizeof(card->uuid_text));
    atomic_store(&card->known, true);
    if (ledger)
        ledger_device(ledger, *ret_vdev, text, physical_bytes);
    return 0;
}

static int find_card(struct guard *guard, const struct guard_file *file, uint32_t client,
                     uint32_t device, unsigned *ret_vdev)
{
    struct vgpu_ledger *ledger = process_any_ledger(guard);
    uint64_t physical_bytes = 0;
    uint32_t subdevice;
    uint8_t uuid[16];
    bool made;
    int rc = borrow_subdevice(guard, file, client, device, &subdevice, &made);

    if (rc < 0)
        return -ENODEV;
    rc = card_uuid(file->fd, client, subdevice, uuid);
    if (rc == 0)
        physical_bytes = ask_size(guard, file, client, subdevice);
    if (made)
        return_subdevice(file, client, device, subdevice);
    return rc < 0 ? rc : bind_card(guard, ledger, uuid, physical_bytes, ret_vdev);
}

int card_of(struct guard *guard, const struct guard_file *file, uint32_t client, uint32_t object,
            unsigned *ret_vdev)
{
    const struct guard_device *entry;
    uint32_t device;
    int rc = objects_device(guard->objects, client, object, &device);

    if (rc < 0)
        return -ENODEV;
    entry = find_device(guard, client, device);
    if (entry) {
        *ret_vdev = entry->vdev;
        return 0;
    }
    rc = find_card(guard, file, client, device, ret_vdev);
    if (rc == 0)
        remember_device(guard, client, device, *ret_vdev);
    return rc;
}

static int share_set(void *arg, enum share_state to)
{
    struct guard_card *card = arg;

    return channels_set(card->guard->channels, (unsigned)(card - card->guard->card), to);
}

static int share_look(void *arg, bool stop, struct share_probe *ret_probe)
{
    struct guard_card *card = arg;

    return channels_probe(card->guard->channels, (unsigned)(card - card->guard->card), stop,
                          ret_probe);
}

static void *serve(void *arg)
{
    struct guard_card *card = arg;

    while (!atomic_load(&card->guard->ending))
        share_wait(card->kept, share_step(card->kept));
    return NULL;
}

/* It takes no signals but its own faults (bus.h), unlike the trap thread, which makes it. */
static int start_thread(struct guard_card *card)
{
    sigset_t set, before;
    int rc;

    sigfillset(&set);
    sigdelset(&set, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &set, &before);
    rc = -pthread_create(&card->thread, NULL, serve, card);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int cards_begin_share(struct guard *guard, unsigned vdev)
{
    static const struct share_ops ops = {.set = share_set, .probe = share_look};
    struct guard_card *card = &guard->card[vdev];
    const struct share_self self = {.region = guard->region,
                                    .vdev = vdev,
                                    .id = guard->instance_id,
                                    .name = guard->limits.name,
                                    .uuid = card->uuid_text};
    const struct share_limits limits = {.compute = guard->limits.compute,
                                        .cap_percent = guard->limits.vdev[vdev].cap_percent};
    struct share *share;
    int rc;

    if (!guard->config.shares || card->share)
        return 0;
    card->guard = guard;
    rc = share_new(&self, &limits, &ops, card, &share);
    if (rc < 0)
        return rc;
    card->kept = share;
    rc = start_thread(card);
    if (rc < 0) {
        share_free(share);
        return rc;
    }
    atomic_store(&card->share, share);
    if (atomic_load(&guard->paused))
        share_pause(share, true);
    return 0;
}

void cards_done(struct guard *guard)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct guard_card *card = &guard->card[i];

        if (!card->share)
            continue;
        share_poke(card->share);
        pthread_join(card->thread, NULL);
        share_free(card->share);
        card->share = NULL;
    }
}

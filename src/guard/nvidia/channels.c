#include "guard/nvidia/channels.h"

#include "base/err.h"
#include "base/log.h"
#include "guard/nvidia/channels_internal.h"
#include "guard/nvidia/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int channels_new(struct channels **ret_channels)
{
    struct channels *channels =
        mmap(NULL, sizeof(*channels), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (channels == MAP_FAILED)
        return err_last();
    *ret_channels = channels;
    return 0;
}

static void drop(struct channel_set *set)
{
    atomic_store(&set->used, 0);
    if (set->fd >= 0)
        close(set->fd);
    memset(set, 0, sizeof(*set));
}

void channels_free(struct channels *channels)
{
    if (!channels)
        return;
    for (unsigned i = 0; i < channels->high; i++) {
        if (channels->set[i].used)
            drop(&channels->set[i]);
    }
    munmap(channels, sizeof(*channels));
}

static bool is_of(const struct channel_set *set, uint32_t client, unsigned vdev, uint32_t subdevice)
{
    return set->used && set->fd >= 0 && set->client == client && set->vdev == vdev &&
           set->subdevice == subdevice;
}

/* A set with room, or one that is free. */
static struct channel_set *find_room(struct channels *channels, uint32_t client, unsigned vdev,
                                     uint32_t subdevice)
{
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        if (is_of(set, client, vdev, subdevice) && set->count < RM_DISABLE_MAX)
            return set;
    }
    for (unsigned i = 0; i < SETS_MAX; i++) {
        if (!channels->set[i].used)
            return &channels->set[i];
    }
    return NULL;
}

static int begin_set(struct channels *channels, struct channel_set *set,
                     const struct channels_new_one *one)
{
    int own = fcntl(one->fd, F_DUPFD_CLOEXEC, 3);

    if (own < 0)
        return err_last();
    memset(set, 0, sizeof(*set));
    set->fd = own;
    set->client = one->client;
    set->vdev = one->vdev;
    set->subdevice = one->subdevice;
    set->ending = channels->state[one->vdev] == SHARE_ENDING;
    atomic_store(&set->off, channels->state[one->vdev] != SHARE_ON);
    if (set - channels->set >= channels->high)
        channels->high = (unsigned)(set - channels->set) + 1;
    atomic_store(&set->used, 1);
    return 0;
}

static void add_group(struct channel_set *set, uint32_t handle)
{
    for (unsigned i = 0; i < set->groups; i++) {
        if (set->group[i].handle == handle)
            return;
    }
    set->group[set->groups++] = (struct group){.handle = handle};
}

/* Unless it still has a channel, so there are never more groups than channels. */
static void take_group_out(struct channel_set *set, uint32_t handle)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->channel[i].group == handle)
            return;
    }
    for (unsigned i = 0; i < set->groups; i++) {
        if (set->group[i].handle == handle) {
            set->group[i] = set->group[--set->groups];
            return;
        }
    }
}

static void take_out(struct channel_set *set, unsigned at)
{
    unsigned last = set->count - 1;
    uint32_t group = set->channel[at].group;

    set->channel[at] = set->channel[last];
    atomic_store(&set->count, last);
    take_group_out(set, group);
    if (last == 0)
        drop(set);
}

void channels_remove(struct channels *channels, uint32_t client, uint32_t channel)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        for (unsigned k = 0; set->used && set->client == client && k < set->count; k++) {
            if (set->channel[k].handle == channel) {
                take_out(set, k);
                return;
            }
        }
    }
}

void channels_remove_client(struct channels *channels, uint32_t client)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        if (channels->set[i].used && channels->set[i].client == client)
            drop(&channels->set[i]);
    }
}

/*
 * A channel that is off must not be switched off again: the program would stand still for ever,
 * even after it is switched on (fact-twice of bench/gpu/guard.py, docs/measurements.md). Switching
 * on what is on does nothing. So each channel has a note that it may be off, written before it is
 * switched off. If a call fails, some of its channels may be off and some not, and all are switched
 * on. Scheduling a channel switches it on, so that is postponed until it is switched on anyway.
 */

/* The status, or -errno. */
static int switch_some(const struct channel_set *set, const struct rm_disable_channels *which,
                       enum share_switch to)
{
    struct rm_disable_channels params = *which;

    params.disable = to != SHARE_ON;
    params.only_scheduling = to == SHARE_ENDING;
    return params.count ? rm_control(set->fd, set->client, set->subdevice,
                                     RM_CTRL_FIFO_DISABLE_CHANNELS, &params, sizeof(params))
                        : RM_OK;
}

static void choose(const struct channel_set *set, unsigned at, struct rm_disable_channels *which)
{
    which->client[which->count] = set->client;
    which->channel[which->count++] = set->channel[at].handle;
}

static int switch_on_one(const struct channel_set *set, unsigned at)
{
    struct rm_disable_channels which = {.count = 0};

    choose(set, at, &which);
    return switch_some(set, &which, SHARE_ON);
}

/* Switches on, one by one, those that may be off: a call for many fails if one is gone. */
static int undo(struct channel_set *set)
{
    int rc = 0;

    for (unsigned i = set->count; i-- > 0 && set->used;) {
        struct channel *channel = &set->channel[i];
        int status;

        if (!channel->off)
            continue;
        status = switch_on_one(set, i);
        if (status == RM_OK) {
            channel->off = false;
        } else if (status == RM_ERR_OBJECT_NOT_FOUND) {
            take_out(set, i);
        } else {
            rc = status < 0 ? status : -EIO;
            log_debug("guard: channel %#x of client %#x cannot be switched on: %s %#x",
                      channel->handle, set->client, status < 0 ? "errno" : "status",
                      (unsigned)(status < 0 ? -status : status));
        }
    }
    return rc;
}

/* One call for those that are on. The status, or -errno. */
static int switch_off_rest(struct channel_set *set, enum share_switch to)
{
    struct rm_disable_channels which = {.count = 0};

    for (unsigned i = 0; i < set->count; i++) {
        struct channel *channel = &set->channel[i];

        if (channel->off)
            continue;
        channel->off = true;
        choose(set, i, &which);
    }
    return switch_some(set, &which, to);
}

static int switch_off(struct channel_set *set, enum share_switch to)
{
    int rc = 0;

    if (set->ending && to == SHARE_OFF)
        probes_stop(set);
    set->ending = to == SHARE_ENDING && (!set->off || set->ending);
    atomic_store(&set->off, 1);
    /* Twice: a channel may have gone, which makes the call fail, and undo() forgets it. */
    for (unsigned i = 0; i < 2; i++) {
        rc = switch_off_rest(set, to);
        if (rc == RM_OK)
            return 0;
        log_debug("guard: channels of client %#x cannot be switched off: %s %#x", set->client,
                  rc < 0 ? "errno" : "status", (unsigned)(rc < 0 ? -rc : rc));
        undo(set);
        if (!set->used)
            return 0;
    }
    return rc < 0 ? rc : -EIO;
}

static int schedule_one(const struct channel_set *set, uint32_t object, uint32_t cmd,
                        struct postponed *postponed, uint32_t bytes)
{
    if (!postponed->waits)
        return RM_OK;
    postponed->waits = false;
    return rm_control(set->fd, set->client, object, cmd, &postponed->how, bytes);
}

/* Makes the postponed calls. The last status that is not RM_OK. */
static int schedule(struct channel_set *set, uint32_t bytes)
{
    int rc = RM_OK, one;

    for (unsigned i = 0; i < set->groups; i++) {
        struct group *group = &set->group[i];

        one = schedule_one(set, group->handle, RM_CTRL_GROUP_SCHEDULE, &group->postponed, bytes);
        rc = one == RM_OK ? rc : one;
    }
    for (unsigned i = 0; i < set->count; i++) {
        struct channel *channel = &set->channel[i];

        one = schedule_one(set, channel->handle, RM_CTRL_CHANNEL_SCHEDULE, &channel->postponed,
                           bytes);
        rc = one == RM_OK ? rc : one;
    }
    return rc;
}

static int switch_on(struct channel_set *set, uint32_t schedule_bytes)
{
    struct rm_disable_channels which = {.count = 0};
    int rc = 0;

    for (unsigned i = 0; i < set->count; i++) {
        if (set->channel[i].off)
            choose(set, i, &which);
    }
    if (switch_some(set, &which, SHARE_ON) == RM_OK) {
        for (unsigned i = 0; i < set->count; i++)
            set->channel[i].off = false;
    } else {
        rc = undo(set);
    }
    if (rc == 0 && set->used) {
        set->ending = false;
        atomic_store(&set->off, 0);
        if (schedule(set, schedule_bytes) != RM_OK)
            log_warning("guard: channels of client %#x could not be scheduled", set->client);
    }
    return rc;
}

int channels_set(struct channels *channels, unsigned vdev, enum share_switch to)
{
    int rc = 0;

    MUTEX_SCOPE(&channels->lock);
    channels->state[vdev] = to;
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];
        int one;

        if (!set->used || set->fd < 0 || set->vdev != vdev)
            continue;
        one = to == SHARE_ON ? switch_on(set, channels->schedule_bytes) : switch_off(set, to);
        if (one < 0)
            rc = one;
    }
    return rc;
}

/* Switches off a new channel if the others are off. */
static int catch_up(struct channel_set *set)
{
    return set->off && !set->ending ? switch_off(set, SHARE_OFF) : 0;
}

int channels_add(struct channels *channels, const struct channels_new_one *one)
{
    struct channel_set *set;
    unsigned at;
    int rc;

    MUTEX_SCOPE(&channels->lock);
    set = find_room(channels, one->client, one->vdev, one->subdevice);
    if (!set)
        return -ENOSPC;
    rc = set->used ? 0 : begin_set(channels, set, one);
    if (rc < 0)
        return rc;
    at = set->count;
    set->channel[at] =
        (struct channel){.handle = one->channel, .group = one->group ? one->group : one->channel};
    add_group(set, set->channel[at].group);
    atomic_store(&set->count, at + 1);
    rc = catch_up(set);
    if (rc < 0)
        take_out(set, at);
    return rc;
}

void channels_park(struct channels *channels, uint32_t client)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        if (!set->used || set->client != client || set->fd < 0)
            continue;
        if (switch_off(set, SHARE_OFF) < 0)
            log_warning("guard: channels of client %#x, whose file is not seen, run on", client);
        if (!set->used)
            continue;
        close(set->fd);
        set->fd = -1;
    }
}

void channels_unpark(struct channels *channels, uint32_t client, int fd)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        if (!set->used || set->client != client || set->fd >= 0)
            continue;
        set->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (set->fd >= 0 && channels->state[set->vdev] == SHARE_ON)
            switch_on(set, channels->schedule_bytes);
    }
}

bool channels_use(struct channels *channels, uint32_t client, uint32_t subdevice)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        if (channels->set[i].used && channels->set[i].client == client &&
            channels->set[i].subdevice == subdevice)
            return true;
    }
    return false;
}

void channels_use_other(struct channels *channels, uint32_t client, uint32_t subdevice,
                        uint32_t other)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        if (set->used && set->client == client && set->subdevice == subdevice)
            set->subdevice = other;
    }
}

void channels_lock(struct channels *channels)
{
    mutex_lock(&channels->lock);
}

void channels_unlock(struct channels *channels)
{
    mutex_unlock(&channels->lock);
}

static bool postpone_one(struct postponed *postponed, bool off, const struct rm_schedule *how)
{
    *postponed = (struct postponed){.waits = off && how->enable, .how = *how};
    return postponed->waits;
}

/* Postpones the call for the channels of the set that it names. */
static bool postpone(struct channel_set *set, uint32_t object, const struct rm_schedule *how)
{
    bool postponed = false, of_group = false;

    for (unsigned i = 0; i < set->count; i++) {
        struct channel *channel = &set->channel[i];

        if (channel->handle == object)
            postponed = postpone_one(&channel->postponed, channel->off, how) || postponed;
        else if (channel->group == object)
            of_group = of_group || channel->off;
    }
    for (unsigned i = 0; i < set->groups; i++) {
        if (set->group[i].handle == object)
            postponed = postpone_one(&set->group[i].postponed, of_group, how) || postponed;
    }
    return postponed;
}

bool channels_postpone(struct channels *channels, uint32_t client, uint32_t object,
                       const struct rm_schedule *how, uint32_t bytes)
{
    bool postponed = false;

    channels->schedule_bytes = bytes;
    for (unsigned i = 0; i < channels->high; i++) {
        struct channel_set *set = &channels->set[i];

        if (set->used && set->client == client && postpone(set, object, how))
            postponed = true;
    }
    return postponed;
}

void channels_rescue(void *arg)
{
    struct channels *channels = arg;
    for (unsigned i = 0; i < SETS_MAX; i++) {
        struct channel_set *set = &channels->set[i];
        struct rm_disable_channels which = {.count = 0};
        unsigned count = atomic_load(&set->count);

        if (!atomic_load(&set->used) || !atomic_load(&set->off) || set->fd < 0)
            continue;
        for (unsigned k = 0; k < count && k < RM_DISABLE_MAX; k++)
            choose(set, k, &which);
        if (switch_some(set, &which, SHARE_ON) != RM_OK) {
            for (unsigned k = 0; k < which.count; k++)
                switch_on_one(set, k);
        }
        schedule(set, channels->schedule_bytes);
    }
}

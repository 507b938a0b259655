#include "guard/channels.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "guard/abi.h"
#include "guard/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETS_MAX    512
#define BACKOFF_MAX 10 /* one that is late is looked for once a second at least */
#define LATE_MAX    64

/* A channel is made by a call that the supervisor does not make: it may be there later, or never. */
struct channel {
    uint32_t handle;
    bool proven;
    pid_t maker; /* the thread that makes the call; 0: it is over */
    uint64_t seen_ns;
    uint8_t misses; /* each counts for twice as long as the one before */
};

/* What one call of the driver switches: channels of a client on a card. */
struct set {
    _Atomic uint32_t used, off; /* off: it may be; set before it is, cleared after it is not. Also the keeper's */
    _Atomic uint32_t count;
    int fd;
    uint32_t client, slice, device, subdevice;
    struct channel channel[RM_DISABLE_MAX];
};

struct channels {
    struct vgpu_mutex lock;
    atomic_bool late; /* some channels may not be there yet */
    bool cannot_tell; /* the driver does not say whether channels are idle */
    unsigned high;    /* sets at and above were never used */
    struct set set[SETS_MAX];
};

int channels_new(struct channels **ret_channels)
{
    struct channels *channels =
        mmap(NULL, sizeof(*channels), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (channels == MAP_FAILED)
        return err_last();
    *ret_channels = channels;
    return 0;
}

static void drop(struct set *set)
{
    atomic_store(&set->used, 0);
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

static bool is_of(const struct set *set, uint32_t client, unsigned slice, uint32_t subdevice)
{
    return set->used && set->client == client && set->slice == slice && set->subdevice == subdevice;
}

/* A set with room, or one that is free. */
static struct set *find_room(struct channels *channels, uint32_t client, unsigned slice, uint32_t subdevice)
{
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];

        if (is_of(set, client, slice, subdevice) && set->count < RM_DISABLE_MAX)
            return set;
    }
    for (unsigned i = 0; i < SETS_MAX; i++) {
        if (!channels->set[i].used)
            return &channels->set[i];
    }
    return NULL;
}

static bool has(const struct channels *channels, uint32_t client, uint32_t channel)
{
    for (unsigned i = 0; i < channels->high; i++) {
        const struct set *set = &channels->set[i];

        for (unsigned k = 0; set->used && set->client == client && k < set->count; k++) {
            if (set->channel[k].handle == channel)
                return true;
        }
    }
    return false;
}

static unsigned count_late(const struct channels *channels)
{
    unsigned late = 0;

    for (unsigned i = 0; i < channels->high; i++) {
        const struct set *set = &channels->set[i];

        for (unsigned k = 0; set->used && k < set->count; k++)
            late += !set->channel[k].proven;
    }
    return late;
}

int channels_add(struct channels *channels, int fd, uint32_t client, unsigned slice, uint32_t device,
                 uint32_t subdevice, uint32_t channel, pid_t maker)
{
    struct set *set;
    unsigned at;

    MUTEX_SCOPE(&channels->lock);
    if (has(channels, client, channel))
        return 0;
    if (count_late(channels) >= LATE_MAX)
        return -ENOSPC;
    set = find_room(channels, client, slice, subdevice);
    if (!set)
        return -ENOSPC;
    if (!set->used) {
        int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        if (own < 0)
            return err_last();
        memset(set, 0, sizeof(*set));
        set->fd = own;
        set->client = client;
        set->slice = slice;
        set->device = device;
        set->subdevice = subdevice;
        if (set - channels->set >= channels->high)
            channels->high = (unsigned)(set - channels->set) + 1;
        atomic_store(&set->used, 1);
    }
    at = set->count;
    set->channel[at] = (struct channel){.handle = channel, .maker = maker, .seen_ns = clock_ns()};
    atomic_store(&set->count, at + 1);
    atomic_store(&channels->late, true);
    return 0;
}

static void take_out(struct set *set, unsigned at)
{
    unsigned last = set->count - 1;

    set->channel[at] = set->channel[last];
    atomic_store(&set->count, last);
    if (last == 0)
        drop(set);
}

void channels_remove(struct channels *channels, uint32_t client, uint32_t channel)
{
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];

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

/* The status, or -errno. */
static int switch_some(const struct set *set, const struct rm_disable_channels *which, bool on)
{
    struct rm_disable_channels params = *which;

    params.disable = !on;
    return params.count ? rm_control(set->fd, set->client, set->subdevice, RM_CTRL_FIFO_DISABLE_CHANNELS, &params,
                                     sizeof(params))
                        : RM_OK;
}

static void choose(const struct set *set, unsigned at, struct rm_disable_channels *which)
{
    which->client[which->count] = set->client;
    which->channel[which->count++] = set->channel[at].handle;
}

static int switch_one(const struct set *set, unsigned at, bool on)
{
    struct rm_disable_channels which = {.count = 0};

    choose(set, at, &which);
    return switch_some(set, &which, on);
}

/* Those of a set that are proven or not, in one call. */
static int switch_part(const struct set *set, bool proven, bool on)
{
    struct rm_disable_channels which = {.count = 0};

    for (unsigned i = 0; i < set->count; i++) {
        if (set->channel[i].proven == proven)
            choose(set, i, &which);
    }
    return switch_some(set, &which, on);
}

static bool is_due(const struct set *set, unsigned at)
{
    return clock_ns() - set->channel[at].seen_ns >= NS_PER_MS << set->channel[at].misses;
}

static void prove(struct set *set, unsigned at)
{
    set->channel[at].proven = true;
    set->channel[at].maker = 0;
}

/* Whether the call that makes a channel is over: it comes never, or is there no more. */
static bool is_over(const struct set *set, unsigned at)
{
    pid_t maker = set->channel[at].maker;

    return maker == 0 || (syscall(SYS_tkill, maker, 0) < 0 && errno == ESRCH);
}

/* Those that are not proven, one by one: one that is not there makes a call for many fail. */
static int switch_singly(struct set *set, bool on)
{
    int rc = 0;

    for (unsigned i = set->count; i-- > 0;) {
        int status;

        if (set->channel[i].proven)
            continue;
        status = switch_one(set, i, on);
        if (status == RM_OK)
            prove(set, i);
        else if (status != RM_ERR_OBJECT_NOT_FOUND)
            rc = status < 0 ? status : -EIO;
        else if (is_over(set, i))
            take_out(set, i);
        else if (set->channel[i].misses < BACKOFF_MAX && is_due(set, i))
            set->channel[i].misses++;
        if (!set->used)
            break;
    }
    return rc;
}

static int switch_set(struct set *set, bool on)
{
    if (!on)
        atomic_store(&set->off, 1);
    if (switch_part(set, true, on) != RM_OK) {
        for (unsigned i = 0; i < set->count; i++)
            set->channel[i].proven = false;
    }
    if (switch_part(set, false, on) == RM_OK) {
        for (unsigned i = 0; i < set->count; i++)
            prove(set, i);
    } else {
        int rc = switch_singly(set, on);

        if (rc < 0 || !set->used)
            return rc;
    }
    if (on)
        atomic_store(&set->off, 0);
    return 0;
}

int channels_set(struct channels *channels, unsigned slice, bool on)
{
    int rc = 0;

    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];
        int one = set->used && set->slice == slice ? switch_set(set, on) : 0;

        if (one < 0)
            rc = one;
    }
    return rc;
}

/* What a query may be answered by a driver that understands it. */
static int busy_of_status(uint32_t status)
{
    return status == RM_OK ? 0 : status == RM_ERR_TIMEOUT || status == RM_ERR_BUSY_RETRY ? 1 : -ENOTSUP;
}

static bool all_proven(const struct set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (!set->channel[i].proven)
            return false;
    }
    return true;
}

static int query(struct set *set)
{
    uint32_t client[RM_DISABLE_MAX], device[RM_DISABLE_MAX], channel[RM_DISABLE_MAX];
    struct rm_idle_channels call = {.client = set->client,
                                    .device = set->device,
                                    .clients = (uintptr_t)client,
                                    .devices = (uintptr_t)device,
                                    .channels = (uintptr_t)channel,
                                    .flags = RM_IDLE_QUERY};

    if (!all_proven(set))
        switch_set(set, !set->off); /* as they are: it shows which of them are there */
    for (unsigned i = 0; set->used && i < set->count; i++) {
        if (!set->channel[i].proven)
            continue;
        client[call.count] = set->client;
        device[call.count] = set->device;
        channel[call.count++] = set->channel[i].handle;
    }
    if (call.count == 0)
        return 0;
    if (ioctl(set->fd, RM_IOCTL(RM_ESC_IDLE_CHANNELS, sizeof(call)), &call) < 0)
        return -ENOTSUP;
    return busy_of_status(call.status);
}

int channels_busy(struct channels *channels, unsigned slice)
{
    int rc = 0;

    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high && rc == 0; i++) {
        struct set *set = &channels->set[i];

        if (set->used && set->slice == slice)
            rc = channels->cannot_tell ? -ENOTSUP : query(set);
    }
    if (rc == -ENOTSUP)
        channels->cannot_tell = true;
    return rc;
}

bool channels_settle(struct channels *channels, unsigned slice)
{
    if (!atomic_load(&channels->late))
        return false;
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];
        bool due = false;

        for (unsigned k = 0; set->used && set->slice == slice && k < set->count; k++)
            due = due || (!set->channel[k].proven && is_due(set, k));
        if (due)
            switch_singly(set, !set->off);
    }
    atomic_store(&channels->late, count_late(channels) > 0);
    return atomic_load(&channels->late);
}

void channels_call_over(struct channels *channels, pid_t tid)
{
    if (!atomic_load(&channels->late))
        return;
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];
        bool made = false;

        for (unsigned k = 0; set->used && k < set->count; k++) {
            if (set->channel[k].maker != tid)
                continue;
            set->channel[k].maker = 0;
            made = true; /* only what is not proven has a maker */
        }
        if (made)
            switch_singly(set, !set->off);
    }
    atomic_store(&channels->late, count_late(channels) > 0);
}

void channels_rescue(struct channels *channels)
{
    for (unsigned i = 0; i < SETS_MAX; i++) {
        struct set *set = &channels->set[i];
        struct rm_disable_channels which = {.count = 0};
        unsigned count = atomic_load(&set->count);

        if (!atomic_load(&set->used) || !atomic_load(&set->off))
            continue;
        for (unsigned k = 0; k < count && k < RM_DISABLE_MAX; k++)
            choose(set, k, &which);
        if (switch_some(set, &which, true) == RM_OK)
            continue;
        for (unsigned k = 0; k < which.count; k++)
            switch_one(set, k, true);
    }
}

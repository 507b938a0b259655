#include "rmclient.h"

#include <string.h>

#define ENGINE_GRAPHICS 1u
#define ENGINE_COPY0    9u

static int make_group(struct rmclient *client, uint32_t engine, uint32_t *group)
{
    struct {
        uint32_t error, ecc_error, va_space, engine, of_plugin;
    } params = {.engine = engine};

    return rmclient_alloc(client, client->device, group, RM_CLASS_CHANNEL_GROUP, &params,
                          sizeof(params));
}

static int make_channel(struct rmclient *client, uint32_t engine, uint32_t parent,
                        uint32_t *channel)
{
    uint32_t params[92] = {0};

    params[32] = engine;
    return rmclient_alloc(client, parent, channel, RMCLIENT_CHANNEL_CLASS, params, sizeof(params));
}

int rmclient_group(struct rmclient *client, uint32_t *group)
{
    return make_group(client, ENGINE_GRAPHICS, group);
}

int rmclient_channel(struct rmclient *client, uint32_t parent, uint32_t *channel)
{
    return make_channel(client, ENGINE_GRAPHICS, parent, channel);
}

/* Two bytes until branch 570, three from 580 on: the driver takes one of them. */
static int schedule(struct rmclient *client, uint32_t object, uint32_t cmd, bool on)
{
    struct rm_schedule params = {.enable = on};
    int rc = rmclient_control(client, object, cmd, &params, sizeof(params));

    if (rc == RM_ERR_INVALID_PARAM_STRUCT)
        rc = rmclient_control(client, object, cmd, &params, sizeof(params) - 1);
    return rc;
}

int rmclient_schedule(struct rmclient *client, uint32_t group, bool on)
{
    return schedule(client, group, RM_CTRL_GROUP_SCHEDULE, on);
}

int rmclient_schedule_channel(struct rmclient *client, uint32_t channel, bool on)
{
    return schedule(client, channel, RM_CTRL_CHANNEL_SCHEDULE, on);
}

/* Handles of the client's choice, as libcuda makes them. */
static uint32_t next_handle(void)
{
    static _Atomic uint32_t count;

    return 0x5c100000u + ++count;
}

static int make_running(struct rmclient *client, uint32_t engine, unsigned count,
                        uint32_t *ret_group, uint32_t *ret_channels)
{
    uint32_t group = next_handle();
    int rc = make_group(client, engine, &group);

    for (unsigned i = 0; rc == 0 && i < count; i++) {
        ret_channels[i] = next_handle();
        rc = make_channel(client, engine, group, &ret_channels[i]);
    }
    if (rc == 0)
        rc = rmclient_schedule(client, group, true);
    if (rc == 0)
        *ret_group = group;
    return rc;
}

int rmclient_compute(struct rmclient *client, unsigned count, uint32_t *ret_group,
                     uint32_t *ret_channels)
{
    return make_running(client, ENGINE_GRAPHICS, count, ret_group, ret_channels);
}

int rmclient_copies(struct rmclient *client, unsigned count, uint32_t *ret_group,
                    uint32_t *ret_channels)
{
    return make_running(client, ENGINE_COPY0, count, ret_group, ret_channels);
}

int rmclient_set_slice(struct rmclient *client, uint32_t group, uint64_t slice_us)
{
    return rmclient_control(client, group, RM_CTRL_GROUP_SET_TIMESLICE, &slice_us,
                            sizeof(slice_us));
}

int rmclient_get_slice(struct rmclient *client, uint32_t group, uint64_t *ret_slice_us)
{
    return rmclient_control(client, group, RM_CTRL_GROUP_GET_TIMESLICE, ret_slice_us,
                            sizeof(*ret_slice_us));
}

static int switch_channels(struct rmclient *client, const uint32_t *clients,
                           const uint32_t *channels, unsigned count,
                           struct rm_disable_channels params)
{
    params.count = count;
    for (unsigned i = 0; i < count && i < RM_DISABLE_MAX; i++) {
        params.client[i] = clients ? clients[i] : client->client;
        params.channel[i] = channels[i];
    }
    return rmclient_control(client, client->subdevice, RM_CTRL_FIFO_DISABLE_CHANNELS, &params,
                            sizeof(params));
}

int rmclient_disable(struct rmclient *client, const uint32_t *clients, const uint32_t *channels,
                     unsigned count, bool disable)
{
    return switch_channels(client, clients, channels, count,
                           (struct rm_disable_channels){.disable = disable});
}

int rmclient_end(struct rmclient *client, const uint32_t *clients, const uint32_t *channels,
                 unsigned count)
{
    return switch_channels(client, clients, channels, count,
                           (struct rm_disable_channels){.disable = true, .only_scheduling = true});
}

int rmclient_preempt(struct rmclient *client, uint32_t group)
{
    struct rm_preempt params = {.wait = 1};

    return rmclient_control(client, group, RM_CTRL_GROUP_PREEMPT, &params, sizeof(params));
}

int rmclient_ctxsw(struct rmclient *client, uint32_t object, bool reset,
                   struct rm_ctxsw_stats *ret_stats)
{
    *ret_stats = (struct rm_ctxsw_stats){.object = object, .flags = reset};
    return rmclient_control(client, client->subdevice, RM_CTRL_GR_GET_CTXSW_STATS, ret_stats,
                            sizeof(*ret_stats));
}

static int submit_work(const struct rmclient *client, uint32_t channel, uint64_t duration_ns,
                       uint64_t count, bool wait)
{
    struct fakerm_submit submit = {.client = client->client,
                                   .channel = channel,
                                   .duration_ns = duration_ns,
                                   .count = count,
                                   .wait = wait};
    int rc = rmclient_ioctl(client->ctl, FAKERM_SUBMIT, &submit);

    return rc < 0 ? rc : (int)submit.status;
}

int rmclient_submit(struct rmclient *client, uint32_t channel, uint64_t duration_ns, uint64_t count)
{
    return submit_work(client, channel, duration_ns, count, false);
}

int rmclient_run(struct rmclient *client, uint32_t channel, uint64_t duration_ns, uint64_t count)
{
    return submit_work(client, channel, duration_ns, count, true);
}

int rmclient_wait(struct rmclient *client, uint32_t channel)
{
    struct fakerm_wait wait = {.client = client->client, .channel = channel};
    int rc = rmclient_ioctl(client->ctl, FAKERM_WAIT, &wait);

    return rc < 0 ? rc : (int)wait.status;
}

int rmclient_work(struct rmclient *client, uint32_t channel, struct fakerm_work *ret_work)
{
    struct fakerm_work work = {.client = client->client, .channel = channel};
    int rc = rmclient_ioctl(client->ctl, FAKERM_WORK, &work);

    if (rc == 0 && work.status == RM_OK)
        *ret_work = work;
    return rc < 0 ? rc : (int)work.status;
}

int rmclient_stats(struct rmclient *client, uint32_t pid, struct fakerm_stats *ret_stats)
{
    struct fakerm_stats stats = {.pid = pid, .gpu = client->gpu};
    int rc = rmclient_ioctl(client->ctl, FAKERM_STATS, &stats);

    if (rc == 0 && stats.status == RM_OK)
        *ret_stats = stats;
    return rc < 0 ? rc : (int)stats.status;
}

int rmclient_reset(struct rmclient *client)
{
    struct fakerm_reset reset = {0};
    int rc = rmclient_ioctl(client->ctl, FAKERM_RESET, &reset);

    return rc < 0 ? rc : (int)reset.status;
}

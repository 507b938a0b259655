#include "rmclient.h"

#include <string.h>

#define ENGINE_GRAPHICS 1u

int rmclient_group(struct rmclient *client, uint32_t *group)
{
    struct {
        uint32_t error, ecc_error, va_space, engine, of_plugin;
    } params = {.engine = ENGINE_GRAPHICS};

    return rmclient_alloc(client, client->device, group, RM_CLASS_CHANNEL_GROUP, &params, sizeof(params));
}

int rmclient_channel(struct rmclient *client, uint32_t parent, uint32_t *channel)
{
    uint32_t params[92] = {0};

    params[32] = ENGINE_GRAPHICS;
    return rmclient_alloc(client, parent, channel, RMCLIENT_CHANNEL_CLASS, params, sizeof(params));
}

/* Two bytes until branch 570, three from 580 on: the driver takes one of them. */
int rmclient_schedule(struct rmclient *client, uint32_t group, bool on)
{
    uint8_t params[4] = {on};
    int rc = rmclient_control(client, group, RM_CTRL_GROUP_SCHEDULE, params, 3);

    if (rc == RM_ERR_INVALID_PARAM_STRUCT)
        rc = rmclient_control(client, group, RM_CTRL_GROUP_SCHEDULE, params, 2);
    return rc;
}

/* Handles of the client's choice, as libcuda makes them. */
static uint32_t next_handle(void)
{
    static _Atomic uint32_t count;

    return 0x5c100000u + ++count;
}

int rmclient_compute(struct rmclient *client, unsigned count, uint32_t *ret_group, uint32_t *ret_channels)
{
    uint32_t group = next_handle();
    int rc = rmclient_group(client, &group);

    for (unsigned i = 0; rc == 0 && i < count; i++) {
        ret_channels[i] = next_handle();
        rc = rmclient_channel(client, group, &ret_channels[i]);
    }
    if (rc == 0)
        rc = rmclient_schedule(client, group, true);
    if (rc == 0)
        *ret_group = group;
    return rc;
}

int rmclient_set_slice(struct rmclient *client, uint32_t group, uint64_t slice_us)
{
    return rmclient_control(client, group, RM_CTRL_GROUP_SET_TIMESLICE, &slice_us, sizeof(slice_us));
}

int rmclient_get_slice(struct rmclient *client, uint32_t group, uint64_t *ret_slice_us)
{
    return rmclient_control(client, group, RM_CTRL_GROUP_GET_TIMESLICE, ret_slice_us, sizeof(*ret_slice_us));
}

int rmclient_disable(struct rmclient *client, const uint32_t *clients, const uint32_t *channels, unsigned count,
                     bool disable)
{
    struct rm_disable_channels params = {.disable = disable, .count = count};

    for (unsigned i = 0; i < count && i < RM_DISABLE_MAX; i++) {
        params.client[i] = clients ? clients[i] : client->client;
        params.channel[i] = channels[i];
    }
    return rmclient_control(client, client->subdevice, RM_CTRL_FIFO_DISABLE_CHANNELS, &params, sizeof(params));
}

int rmclient_idle(struct rmclient *client, const uint32_t *channels, unsigned count)
{
    uint32_t clients[RM_DISABLE_MAX], devices[RM_DISABLE_MAX];
    struct rm_idle_channels idle = {
        .client = client->client,
        .device = client->device,
        .count = count < RM_DISABLE_MAX ? count : RM_DISABLE_MAX,
        .clients = (uintptr_t)clients,
        .devices = (uintptr_t)devices,
        .channels = (uintptr_t)channels,
        .flags = RM_IDLE_QUERY,
    };
    int rc;

    for (unsigned i = 0; i < idle.count; i++) {
        clients[i] = client->client;
        devices[i] = client->device;
    }
    rc = rmclient_call(client->ctl, RM_ESC_IDLE_CHANNELS, sizeof(idle), &idle);
    return rc < 0 ? rc : (int)idle.status;
}

static int submit_work(const struct rmclient *client, uint32_t channel, uint64_t duration_ns, uint64_t count, bool wait)
{
    struct fakerm_submit submit = {
        .client = client->client, .channel = channel, .duration_ns = duration_ns, .count = count, .wait = wait};
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

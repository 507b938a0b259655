/*
 * Shares in real threads and real time: they wait and are woken, are paused by another thread, take
 * turns, and leave all channels on. t_share.c tests their decisions in virtual time.
 */
#include "sched/usage.h"
#include "guard/sched/share.h"
#include "sched/arena.h"
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>

#define PATIENCE_MS 30000 /* a loaded machine */

struct tenant {
    struct vgpu_region *region;
    struct share *share;
    pthread_t thread;
    atomic_bool ending, on, busy;
    _Atomic unsigned sets, endings, probes, wrong_looks;
};

static int set(void *arg, enum share_switch to)
{
    struct tenant *tenant = arg;

    nap_ms(1);
    atomic_store(&tenant->on, to == SHARE_ON);
    if (to == SHARE_ENDING)
        atomic_fetch_add(&tenant->endings, 1);
    atomic_fetch_add(&tenant->sets, 1);
    return 0;
}

static int probe(void *arg, bool stop, struct share_probe *ret_probe)
{
    struct tenant *tenant = arg;
    bool busy = atomic_load(&tenant->busy);

    atomic_fetch_add(&tenant->probes, 1);
    if (stop && !atomic_load(&tenant->on))
        atomic_fetch_add(&tenant->wrong_looks, 1);
    *ret_probe = (struct share_probe){.runs = busy, .worked = busy};
    return 0;
}

static const struct share_ops ops = {.set = set, .probe = probe};

static void *serve(void *arg)
{
    struct tenant *tenant = arg;

    while (!atomic_load(&tenant->ending))
        share_wait(tenant->share, share_step(tenant->share));
    return NULL;
}

static void begin(struct tenant *tenant, const char *name, unsigned cap_percent)
{
    struct vgpu_limits limits = {.device_count = 0};
    struct share_self self = {.name = name, .uuid = "GPU-threads"};
    bool created;

    *tenant = (struct tenant){.on = true, .busy = true};
    snprintf(limits.name, sizeof(limits.name), "%s", name);
    unlink(scratch_path(name));
    assert_int_equal(region_create(scratch_path(name), NULL, &limits, &tenant->region, &created),
                     0);
    self.region = tenant->region;
    self.id = usage_instance_id(tenant->region);
    assert_int_equal(share_new(&self, &(struct share_limits){.cap_percent = cap_percent}, &ops,
                               tenant, &tenant->share),
                     0);
    assert_int_equal(pthread_create(&tenant->thread, NULL, serve, tenant), 0);
}

static void end(struct tenant *tenant)
{
    atomic_store(&tenant->ending, true);
    share_poke(tenant->share);
    assert_int_equal(pthread_join(tenant->thread, NULL), 0);
    share_free(tenant->share);
    assert_true(atomic_load(&tenant->on));
    assert_int_equal(atomic_load(&tenant->wrong_looks), 0);
    region_close(tenant->region);
}

static struct vgpu_compute_usage usage_of(const struct tenant *tenant)
{
    struct vgpu_snapshot snapshot;
    struct vgpu_compute_usage usage;

    assert_int_equal(region_snapshot(tenant->region, &snapshot), 0);
    usage = snapshot.vdev[0].compute;
    snapshot_done(&snapshot);
    return usage;
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (unsigned i_ = 0; i_ < PATIENCE_MS && !(condition); i_++)                              \
            nap_ms(1);                                                                             \
        assert_true(condition);                                                                    \
    } while (0)

static int set_folder(void **state)
{
    (void)state;
    return setenv("VGPU_ARENA_DIR", scratch(), 1);
}

TEST(turns, set_folder)
{
    struct tenant tenants[2];

    begin(&tenants[0], "one", 0);
    begin(&tenants[1], "two", 0);
    WAIT_FOR(usage_of(&tenants[0]).turns >= 5 && usage_of(&tenants[1]).turns >= 5);
    assert_true(atomic_load(&tenants[0].endings) > 0 && atomic_load(&tenants[1].endings) > 0);
    /* Who goes, without a word, leaves the device to the other. */
    end(&tenants[0]);
    WAIT_FOR(atomic_load(&tenants[1].on));
    end(&tenants[1]);
}

TEST(pause, set_folder)
{
    struct tenant tenants[2];

    begin(&tenants[0], "one", 0);
    begin(&tenants[1], "two", 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(share_pause(tenants[i % 2].share, true), 0);
        assert_false(atomic_load(&tenants[i % 2].on));
        nap_ms(20);
        assert_false(atomic_load(&tenants[i % 2].on));
        assert_int_equal(share_pause(tenants[i % 2].share, false), 0);
        WAIT_FOR(atomic_load(&tenants[i % 2].on));
    }
    end(&tenants[1]);
    end(&tenants[0]);
}

TEST(cap, set_folder)
{
    struct tenant tenant;

    begin(&tenant, "capped", 25);
    WAIT_FOR(atomic_load(&tenant.sets) >= 20);
    assert_int_equal(atomic_load(&tenant.endings), 0);
    assert_true(usage_of(&tenant).throttles > 0);
    assert_true(usage_of(&tenant).amount[VGPU_WORK_KERNEL] > 0);
    /* A wait is ended by a poke, however long it was to be: a lone one is looked at only now and
     * then. */
    atomic_store(&tenant.busy, false);
    end(&tenant);
}

TEST(no_arena, set_folder)
{
    struct tenant tenant;

    setenv("VGPU_ARENA_DIR", scratch_path("not-there"), 1);
    begin(&tenant, "alone", 25);
    WAIT_FOR(atomic_load(&tenant.sets) >= 4);
    assert_int_equal(share_pause(tenant.share, true), 0);
    assert_false(atomic_load(&tenant.on));
    end(&tenant);
    assert_int_equal(
        share_new(&(struct share_self){.vdev = VGPU_DEVICES_MAX, .name = "", .uuid = "GPU-0"},
                  &(struct share_limits){.cap_percent = 0}, &ops, NULL, &tenant.share),
        -EINVAL);
    share_free(NULL);
}

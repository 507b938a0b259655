/* How a process finds its instance, for every combination of variables; each runs in a child. */
#include "unit.h"

#include "account/implicit.h"
#include "account/instance.h"
#include "account/ledger_internal.h"
#include "account/override.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* What a child is started with: environment as NAME=VALUE, and what it should find. */
struct start {
    const char *environment[8];
    int attached;      /* 1, 0, or -errno */
    uint64_t quota[3]; /* of vdevs 0, 1, 15 */
    uint32_t cap[3];   /* likewise */
    uint32_t cap_policy, priority;
    const char *said; /* must be in what stderr was told; NULL: nothing was */
    void (*then)(struct vgpu_ledger *ledger);
};

static char said[4096];

static void clear_environment(void)
{
    char name[64];

    unsetenv("VGPU_INSTANCE");
    unsetenv("CUDA_DEVICE_MEMORY_LIMIT");
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    unsetenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    unsetenv("GPU_CORE_UTILIZATION_POLICY");
    unsetenv("CUDA_TASK_PRIORITY");
    unsetenv("VGPU_LOG_LEVEL");
    unsetenv("LIBCUDA_LOG_LEVEL");
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof(name), "CUDA_DEVICE_MEMORY_LIMIT_%d", i);
        unsetenv(name);
        snprintf(name, sizeof(name), "CUDA_DEVICE_SM_LIMIT_%d", i);
        unsetenv(name);
    }
    setenv("VGPU_RUNTIME_DIR", scratch(), 1);
}

static int attach(void *arg)
{
    const struct start *start = arg;
    struct vgpu_ledger *ledger = NULL;
    struct vgpu_limits limits;
    int rc;

    clear_environment();
    for (int i = 0; start->environment[i]; i++)
        putenv((char *)start->environment[i]);
    errno = 77;
    CHECK(instance_configured() == (start->attached != 0));
    rc = instance_attach(&ledger);
    CHECK(errno == 77);
    if (rc != start->attached) {
        fprintf(stderr, "instance_attach: %d instead of %d\n", rc, start->attached);
        return 1;
    }
    /* Said once; and a failure does not stick. */
    if (rc < 0)
        CHECK(instance_attach(&ledger) == rc);
    if (rc <= 0)
        return 0;
    CHECK(ledger_quota(ledger, 0) == start->quota[0]);
    CHECK(ledger_quota(ledger, 1) == start->quota[1]);
    CHECK(ledger_quota(ledger, 15) == start->quota[2]);
    region_limits(ledger_region(ledger), &limits);
    CHECK(limits.vdev[0].cap_percent == start->cap[0]);
    CHECK(limits.vdev[1].cap_percent == start->cap[1]);
    CHECK(limits.vdev[15].cap_percent == start->cap[2]);
    CHECK(limits.compute.cap_policy == start->cap_policy);
    CHECK(limits.compute.priority == start->priority);
    if (start->then)
        start->then(ledger);
    return 0;
}

static void run(const struct start *start)
{
    int pipes[2], err = dup(STDERR_FILENO), status;
    size_t length = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    close(pipes[1]);
    pid = spawn(attach, (void *)start);
    dup2(err, STDERR_FILENO);
    close(err);
    while ((got = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(pipes[0]);
    status = finish(pid);
    if (status != 0)
        fail_msg("%s: %s", start->environment[0], said);
    if (!start->said) {
        assert_string_equal(said, "");
    } else {
        if (!strstr(said, start->said))
            fail_msg("said '%s', not '%s'", said, start->said);
        /* One line. */
        assert_ptr_equal(strchr(said, '\n'), said + length - 1);
    }
}

static char cache[600], cache_file[512];

static int setup(void **state)
{
    (void)state;
    snprintf(cache_file, sizeof(cache_file), "%s", scratch_path("unit.cache"));
    snprintf(cache, sizeof(cache), "CUDA_DEVICE_MEMORY_SHARED_CACHE=%s", cache_file);
    unlink(cache_file);
    return 0;
}

TEST(nothing_configured, setup)
{
    run(&(struct start){.attached = 0});
    run(&(struct start){.environment = {"CUDA_DEVICE_MEMORY_LIMIT=", "VGPU_INSTANCE="},
                        .attached = 0});
    assert_int_equal(access(cache_file, F_OK), -1);
}

TEST(limits_from_variables, setup)
{
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB}});
    /* Nobody is attached any more: the next one's limits count. */
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g",
                                        "CUDA_DEVICE_MEMORY_LIMIT_1=1024m",
                                        "CUDA_DEVICE_MEMORY_LIMIT_15=0m"},
                        .attached = 1,
                        .quota = {4 * GIB, GIB, 0}});
    /* Without limits of one's own those that are there stay. */
    run(&(struct start){.environment = {cache}, .attached = 1, .quota = {4 * GIB, GIB, 0}});
    /* Limits come together: what a process that brings some does not name is none. */
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_SM_LIMIT=30"}, .attached = 1, .cap = {30, 30, 30}});
    run(&(struct start){.environment = {cache}, .attached = 1, .cap = {30, 30, 30}});
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB}});
}

TEST(caps_from_variables, setup)
{
    static const char *const none[] = {"CUDA_DEVICE_SM_LIMIT=0", "CUDA_DEVICE_SM_LIMIT=100",
                                       "CUDA_DEVICE_SM_LIMIT=101",
                                       "CUDA_DEVICE_SM_LIMIT=18446744073709551616"};
    static const char *const bad[] = {"abc", "-1", "30.5", "1e1", "30g", "0x", "3 0"};
    char variable[128], message[160];

    run(&(struct start){.environment = {cache, "CUDA_DEVICE_SM_LIMIT=50",
                                        "CUDA_DEVICE_SM_LIMIT_1=1", "CUDA_DEVICE_SM_LIMIT_15=0"},
                        .attached = 1,
                        .cap = {50, 1, 0}});
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_SM_LIMIT_1=99%"}, .attached = 1, .cap = {0, 99, 0}});
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_SM_LIMIT=0x1e", "CUDA_DEVICE_SM_LIMIT_1= 040"},
        .attached = 1,
        .cap = {30, 32, 30}});
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        run(&(struct start){.environment = {cache, none[i]}, .attached = 1});
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(variable, sizeof(variable), "CUDA_DEVICE_SM_LIMIT=%s", bad[i]);
        snprintf(message, sizeof(message), "vgpu: CUDA_DEVICE_SM_LIMIT \"%s\": use a whole",
                 bad[i]);
        run(&(struct start){
            .environment = {cache, variable}, .attached = -EINVAL, .said = message});
    }
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_SM_LIMIT_3=x"},
                        .attached = -EINVAL,
                        .said = "vgpu: CUDA_DEVICE_SM_LIMIT_3 \"x\": use"});
}

TEST(policy_and_priority, setup)
{
    static const struct {
        const char *text;
        enum vgpu_cap_policy policy;
    } policies[] = {{"GPU_CORE_UTILIZATION_POLICY=force", VGPU_CAP_HARD},
                    {"GPU_CORE_UTILIZATION_POLICY=DEFAULT", VGPU_CAP_HARD},
                    {"GPU_CORE_UTILIZATION_POLICY=", VGPU_CAP_HARD},
                    {"GPU_CORE_UTILIZATION_POLICY=disable", VGPU_CAP_OFF},
                    {"GPU_CORE_UTILIZATION_POLICY=Disable", VGPU_CAP_OFF}};
    static const struct {
        const char *text;
        uint32_t priority;
    } priorities[] = {{"CUDA_TASK_PRIORITY=0", 100},
                      {"CUDA_TASK_PRIORITY=1", 0},
                      {"CUDA_TASK_PRIORITY=2", 0},
                      {"CUDA_TASK_PRIORITY=high", 0},
                      {"CUDA_TASK_PRIORITY=", 0}};

    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++)
        run(&(struct start){.environment = {cache, "CUDA_DEVICE_SM_LIMIT=30", policies[i].text},
                            .attached = 1,
                            .cap = {30, 30, 30},
                            .cap_policy = policies[i].policy});
    for (size_t i = 0; i < sizeof(priorities) / sizeof(*priorities); i++)
        run(&(struct start){.environment = {cache, "CUDA_DEVICE_SM_LIMIT=30", priorities[i].text},
                            .attached = 1,
                            .cap = {30, 30, 30},
                            .priority = priorities[i].priority});
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_SM_LIMIT=30", "GPU_CORE_UTILIZATION_POLICY=strict"},
        .attached = 1,
        .cap = {30, 30, 30},
        .said = "vgpu: GPU_CORE_UTILIZATION_POLICY 'strict': there is no such policy, default is"});
    /* Neither makes an instance. */
    run(&(struct start){
        .environment = {"CUDA_TASK_PRIORITY=0", "GPU_CORE_UTILIZATION_POLICY=force"},
        .attached = 0});
}

TEST(announced, setup)
{
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_1=0",
                        "CUDA_DEVICE_MEMORY_LIMIT_0=1g", "VGPU_LOG_LEVEL=3"},
        .attached = 1,
        .quota = {GIB, 0, 0},
        .cap = {30, 0, 30},
        .said =
            "is attached; quota: 1.0 GiB from device 0 on, none from device 1 on; cap (hard): 30% "
            "from "
            "device 0 on, none from device 1 on, 30% from device 2 on; weight 100, priority 0\n"});
}

TEST(bad_limits, setup)
{
    static const char *const bad[] = {"1.3g", "0x10q", "1Gi5", "1g5",
                                      "abc",  "-1",    "1g ",  "18446744073709551616"};
    char variable[128], message[160];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(variable, sizeof(variable), "CUDA_DEVICE_MEMORY_LIMIT=%s", bad[i]);
        snprintf(message, sizeof(message), "vgpu: CUDA_DEVICE_MEMORY_LIMIT \"%s\": ", bad[i]);
        run(&(struct start){
            .environment = {cache, variable}, .attached = -EINVAL, .said = message});
    }
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT_3=1gx"},
                        .attached = -EINVAL,
                        .said = "vgpu: CUDA_DEVICE_MEMORY_LIMIT_3 \"1gx\": not a size"});
    assert_int_equal(access(cache_file, F_OK), -1);
}

static void start_others(struct vgpu_ledger *ledger)
{
    (void)ledger;
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=8g"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB},
                        .said = "vgpu: CUDA_DEVICE_MEMORY_LIMIT: processes run with other limits"});
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4096m"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB}});
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_SM_LIMIT=30"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB},
                        .said = "vgpu: CUDA_DEVICE_SM_LIMIT: processes run with other limits"});
    run(&(struct start){
        .environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g", "CUDA_TASK_PRIORITY=0"},
        .attached = 1,
        .quota = {4 * GIB, 4 * GIB, 4 * GIB},
        .said = "vgpu: CUDA_DEVICE_MEMORY_LIMIT: processes run with other limits"});
}

TEST(other_limits_while_in_use, setup)
{
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB},
                        .then = start_others});
}

static void start_with_limits(struct vgpu_ledger *ledger)
{
    run(&(struct start){.environment = {cache, "CUDA_DEVICE_MEMORY_LIMIT=4g"},
                        .attached = 1,
                        .quota = {4 * GIB, 4 * GIB, 4 * GIB}});
    assert_int_equal(ledger_quota(ledger, 0), 4 * GIB);
}

/* A process without limits is there first, and stays: those who come with some get them, and so
 * does it. */
TEST(first_without_limits, setup)
{
    run(&(struct start){.environment = {cache}, .attached = 1, .then = start_with_limits});
}

TEST(cache_places, setup)
{
    run(&(struct start){
        .environment = {"CUDA_DEVICE_MEMORY_SHARED_CACHE=/nonexistent/x.cache"},
        .attached = -ENOENT,
        .said = "vgpu: CUDA_DEVICE_MEMORY_SHARED_CACHE: cannot attach to /nonexistent/x.cache: "});
    assert_int_equal(symlink("/etc/passwd", cache_file), 0);
    run(&(struct start){.environment = {cache},
                        .attached = -ELOOP,
                        .said = "vgpu: CUDA_DEVICE_MEMORY_SHARED_CACHE"});
}

TEST(named_instances, setup)
{
    struct vgpu_limits limits = {.name = "named"};
    struct vgpu_region *region;
    char by_path[600];
    bool created;

    limits.vdev[0].quota_bytes = 3 * GIB;
    mkdir(scratch_path("instances"), 0700);
    mkdir(scratch_path("instances/named"), 0700);
    assert_int_equal(
        region_create(scratch_path("instances/named/region"), NULL, &limits, &region, &created), 0);
    region_close(region);
    snprintf(by_path, sizeof(by_path), "VGPU_INSTANCE=%s", scratch_path("instances/named"));
    run(&(struct start){.environment = {by_path}, .attached = 1, .quota = {3 * GIB, 0, 0}});
    run(&(struct start){
        .environment = {"VGPU_INSTANCE=named"}, .attached = 1, .quota = {3 * GIB, 0, 0}});
    /* The instance's limits are not to be raised by variables. */
    run(&(struct start){
        .environment = {"VGPU_INSTANCE=named", "CUDA_DEVICE_MEMORY_LIMIT=64g", cache},
        .attached = 1,
        .quota = {3 * GIB, 0, 0}});
    assert_int_equal(access(cache_file, F_OK), -1);
    run(&(struct start){
        .environment = {"VGPU_INSTANCE=other"},
        .attached = -ENOENT,
        .said =
            "vgpu: VGPU_INSTANCE: cannot attach to other: there is no such instance; CUDA is not"});
    run(&(struct start){.environment = {"VGPU_INSTANCE=../named"},
                        .attached = -EINVAL,
                        .said = "vgpu: VGPU_INSTANCE"});
}

/* What hid the instance is gone: the next try finds it. */
TEST(failure_does_not_stick, setup)
{
    struct vgpu_ledger *ledger = NULL;
    struct vgpu_limits limits = {.name = "late"};
    struct vgpu_region *region;
    bool created;

    clear_environment();
    setenv("VGPU_INSTANCE", "late", 1);
    assert_int_equal(instance_attach(&ledger), -ENOENT);
    mkdir(scratch_path("instances"), 0700);
    mkdir(scratch_path("instances/late"), 0700);
    assert_int_equal(
        region_create(scratch_path("instances/late/region"), NULL, &limits, &region, &created), 0);
    assert_int_equal(instance_attach(&ledger), 1);
    assert_string_equal(limits.name, "late");
    region_close(region);
    region = ledger_region(ledger);
    ledger_free(ledger);
    region_close(region);
    clear_environment();
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

/* HAMi's file of overrides: the last line counts; a name is no other's beginning; without the file
 * there is nothing. */
TEST(overrides)
{
    const char *path = scratch_path("overrideEnv");

    write_file(path, "ONE=1\nTWO=first\r\nONEMORE=x\n\nnothing\nTWO=2=2\nEMPTY=\nLAST=end");
    override_read(path);
    assert_string_equal(override_get("ONE"), "1");
    assert_string_equal(override_get("TWO"), "2=2");
    assert_string_equal(override_get("EMPTY"), "");
    assert_string_equal(override_get("LAST"), "end");
    assert_null(override_get("nothing"));
    assert_null(override_get("MORE"));
    override_read(scratch_path("no such file"));
    assert_null(override_get("ONE"));
}

static void note_path(const char *path, void *arg)
{
    char *all = arg;

    strcat(strcat(all, path), " ");
}

/* Implicit instances are found by what their processes leave in the runtime directory. */
TEST(implicit_instances_found)
{
    char all[512] = "", wanted[128], runtime[128];
    const char *found = scratch_path("found.cache");

    snprintf(runtime, sizeof(runtime), "%s", scratch_path("runtime"));
    setenv("VGPU_RUNTIME_DIR", runtime, 1);
    implicit_each(runtime, note_path, all);
    assert_string_equal(all, "");
    write_file(found, "");
    implicit_register(found);
    implicit_register(found);
    implicit_register(scratch_path("gone.cache"));
    implicit_each(runtime, note_path, all);
    snprintf(wanted, sizeof(wanted), "%s ", found);
    assert_string_equal(all, wanted);
    unlink(found);
    all[0] = '\0';
    implicit_each(runtime, note_path, all);
    write_file(found, ""); /* the link is gone with the file */
    implicit_each(runtime, note_path, all);
    assert_string_equal(all, "");
    unsetenv("VGPU_RUNTIME_DIR");
}

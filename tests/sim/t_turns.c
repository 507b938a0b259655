/*
 * Turns: instances that want the same device share it by weight, whatever happens to one of them.
 * Each test makes its own instances. On a busy machine tenants do not always have work ready, so
 * the tests judge what holds once the shares have settled (book.h). The scheduler's unit tests, in
 * virtual time, check how soon that is.
 */
#include "tenants.h"

#include "sched/arena.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One tenant, and what it gets once things have settled. */
struct tenant {
    const char *name, *settings, *load;
    double part;        /* of what all of them get, within PART_SLACK; or ... */
    double least, most; /* ... a share of the device */
    unsigned gap_ms;    /* the longest time without anything; 0: any */
    pid_t pid;
};

#define PART_SLACK 0.08
#define LOAD       "us=1000 sync=8"

static void begin_tenants(struct watch *watch, struct tenant *tenants, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tenant_make(tenants[i].name, tenants[i].settings);
        watch_add(watch, 0, tenants[i].name);
        tenants[i].pid = tenant_start(tenants[i].name, "load secs=600 %s", tenants[i].load);
    }
    for (unsigned i = 0; i < count; i++)
        watch_until_busy(watch, i);
    watch_for(watch, 200); /* until they know of each other */
    watch_restart(watch);
}

static void end_tenants(struct watch *watch, struct tenant *tenants, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tenant_end(tenants[i].pid);
        tenant_check_empty(tenants[i].name);
    }
    watch_done(watch);
}

static double sum_of_shares(const struct watch *watch)
{
    double sum = 0;

    for (unsigned i = 0; i < watch->count; i++)
        sum += watch_share(watch, i);
    return sum;
}

static void report(const struct watch *watch)
{
    for (unsigned i = 0; i < watch->count; i++)
        printf("%s: %.4f of the device, longest gap %.1f ms\n", watch->who[i].group,
               watch_share(watch, i), (double)watch_longest_gap(watch, i) / 1e6);
    printf("sum %.4f; late by up to %.1f ms\n", sum_of_shares(watch), (double)watch->late_ns / 1e6);
}

static void settle_part(struct watch *watch, unsigned who, double part, double slack)
{
    double got = watch_share(watch, who) / sum_of_shares(watch);

    watch_expect(watch, got >= part - slack && got <= part + slack,
                 "%s has %.3f of what is used, not %.3f", watch->who[who].group, got, part);
}

static void settle_share(struct watch *watch, unsigned who, double least, double most)
{
    double share = watch_share(watch, who);

    watch_expect(watch, share >= least && share <= most,
                 "%s has %.4f of the device, not %.3f to %.3f", watch->who[who].group, share, least,
                 most);
}

static void settle_gap(struct watch *watch, unsigned who, unsigned ms)
{
    uint64_t gap_ns = watch_longest_gap(watch, who);

    watch_expect(watch, gap_ns <= ms * MS + 2 * watch->late_ns,
                 "%s had nothing for %.1f ms, more than %u (and %.1f that the machine was late)",
                 watch->who[who].group, (double)gap_ns / 1e6, ms, (double)watch->late_ns / 1e6);
}

/* What each tenant is to get. */
static void settle_tenants(struct watch *watch, const struct tenant *tenants, unsigned count)
{
    report(watch);
    for (unsigned i = 0; i < count; i++) {
        if (tenants[i].part > 0)
            settle_part(watch, i, tenants[i].part, PART_SLACK);
        else
            settle_share(watch, i, tenants[i].least, tenants[i].most);
        if (tenants[i].gap_ms)
            settle_gap(watch, i, tenants[i].gap_ms);
    }
}

static void settle_sum(struct watch *watch, double least)
{
    watch_expect(watch, sum_of_shares(watch) >= least, "only %.3f of the device is used",
                 sum_of_shares(watch));
}

/* What processes have said of themselves in the arena: how many there are, and flags of any. */
static unsigned look_at_arena(unsigned *ret_flags)
{
    static struct vgpu_arena *arena;
    char uuid[VGPU_UUID_LEN] = "GPU-";
    unsigned used = 0;
    CUuuid id;

    if (!arena) {
        open_device(0);
        CU_OK(cu.cuDeviceGetUuid_v2(&id, 0));
        close_device(0);
        for (unsigned i = 0; i < 16; i++)
            snprintf(uuid + strlen(uuid), sizeof uuid - strlen(uuid), "%s%02x",
                     i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)id.bytes[i]);
        CHECK_U(arena_open(uuid, false, &arena), ==, 0);
    }
    *ret_flags = 0;
    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        *ret_flags |= atomic_load(&arena->layout->page[i].flags);
        used += atomic_load(&arena->layout->page[i].used);
    }
    return used;
}

/* Tenants that stay, one row each. Windows of `ms` are looked at. */
static const struct scenario {
    const char *name;
    unsigned ms;
    double sum_least; /* how much of the device all of them use */
    struct tenant tenants[4];
} scenarios[] = {
    /* Equal; kernels that are waited for, and such that are queued. */
    {"of_two",
     900,
     0.75,
     {{"one", "", LOAD, .part = 0.5, .gap_ms = 150},
      {"two", "", "us=1000 sync=16", .part = 0.5, .gap_ms = 150}}},
    {"by_weight",
     900,
     0.75,
     {{"light", "weight=100", "us=1000 sync=64", .part = 0.25, .gap_ms = 150},
      {"heavy", "weight=300", "us=1000 sync=64", .part = 0.75, .gap_ms = 150}}},
    /* The policy asked for last is the device's. The lower priority does not starve. */
    {"by_priority",
     2500,
     0,
     {{"low", "priority=1", "us=1000 sync=16", .least = 0.001, .most = 0.3, .gap_ms = 1200},
      {"high", "priority=2 turn_policy=2", "us=1000 sync=16", .least = 0.6, .most = 1,
       .gap_ms = 50}}},
    /* Short kernels beside long ones: the driver alone would give the long ones most. */
    {"of_four",
     1100,
     0.70,
     {{"one", "", LOAD, .part = 0.25, .gap_ms = 300},
      {"two", "", "us=200 sync=32", .part = 0.25, .gap_ms = 300},
      {"three", "", "us=5000 sync=4", .part = 0.25, .gap_ms = 300},
      {"four", "", "us=1000 sync=1", .part = 0.25, .gap_ms = 300}}},
    /* A cap holds among others too, and turns leave to others what it does not let through. */
    {"and_caps",
     900,
     0,
     {{"small", "cores=30", LOAD, .least = 0.24, .most = 0.32, .gap_ms = 150},
      {"large", "cores=60", LOAD, .least = 0.50, .most = 0.62, .gap_ms = 150}}},
};

TEST(turns)
{
    const struct scenario *scenario = scenarios;
    struct watch watch = {0};
    struct tenant tenants[4];
    unsigned count = 0;

    while (strcmp(scenario->name, argv[0]) != 0)
        CHECK(++scenario < scenarios + sizeof scenarios / sizeof scenarios[0]);
    memcpy(tenants, scenario->tenants, sizeof tenants);
    while (count < 4 && tenants[count].name)
        count++;
    begin_tenants(&watch, tenants, count);
    while (watch_settles(&watch, scenario->ms)) {
        settle_tenants(&watch, tenants, count);
        settle_sum(&watch, scenario->sum_least);
        if (scenario == scenarios) {
            watch_expect(&watch, tenant_number("one", 0, "turns") > 10,
                         "hardly any turns are counted");
            watch_expect(&watch, tenant_number("one", 0, "turn_wait_ns") > 200 * MS,
                         "hardly any waiting is counted");
        }
    }
    end_tenants(&watch, tenants, count);
    return 0;
}

/* An instance with two processes counts as one. */
TEST(turns_are_the_instances)
{
    struct tenant tenants[] = {{"pair", "", LOAD, .part = 0.5, .gap_ms = 150},
                               {"single", "", LOAD, .part = 0.5, .gap_ms = 150}};
    struct watch watch = {0};

    begin_tenants(&watch, tenants, 2);
    pid_t pid = tenant_start("pair", "load secs=600 " LOAD);
    watch_for(&watch, 200);
    while (watch_settles(&watch, 900)) {
        settle_tenants(&watch, tenants, 2);
        settle_sum(&watch, 0.70);
    }
    tenant_end(pid);
    end_tenants(&watch, tenants, 2);
    return 0;
}

/* Comes and goes: the one that stays has the device to itself again, and shares it with the
 * next. */
TEST(turns_with_changing_company)
{
    struct tenant tenants[] = {{.name = "stays", .settings = "", .load = LOAD},
                               {.name = "goes", .settings = "", .load = LOAD}};
    struct watch watch = {0};

    begin_tenants(&watch, tenants, 2);
    tenant_end(tenants[1].pid);
    watch_for(&watch, 400);
    while (watch_settles(&watch, 200)) {
        report(&watch);
        settle_share(&watch, 0, 0.85, 1.01);
    }
    tenants[1].pid = tenant_start("goes", "load secs=600 " LOAD);
    watch_until_busy(&watch, 1);
    watch_for(&watch, 200);
    while (watch_settles(&watch, 700)) {
        report(&watch);
        for (unsigned i = 0; i < 2; i++) {
            settle_part(&watch, i, 0.5, 0.1);
            settle_gap(&watch, i, 200);
        }
    }
    end_tenants(&watch, tenants, 2);
    return 0;
}

/* An elastic cap holds while another instance uses the device. */
TEST(turns_and_elastic_cap)
{
    struct tenant tenants[] = {
        {.name = "elastic", .settings = "cores=30 cap_policy=1", .load = LOAD},
        {.name = "other", .settings = "", .load = LOAD}};
    struct watch watch = {0};

    begin_tenants(&watch, tenants, 1);
    while (watch_settles(&watch, 200)) {
        report(&watch);
        settle_share(&watch, 0, 0.85, 1.01);
    }
    watch_add(&watch, 0, "other");
    tenant_make("other", "");
    tenants[1].pid = tenant_start("other", "load secs=600 " LOAD);
    watch_until_busy(&watch, 1);
    while (watch_settles(&watch, 600)) {
        report(&watch);
        settle_share(&watch, 0, 0.15, 0.32);
        settle_share(&watch, 1, 0.45, 0.85);
    }
    tenant_end(tenants[1].pid);
    watch_for(&watch, 400);
    while (watch_settles(&watch, 200)) {
        report(&watch);
        settle_share(&watch, 0, 0.85, 1.01);
    }
    end_tenants(&watch, tenants, 1);
    return 0;
}

/* Alone, an instance has no helper thread, and its launches look at nothing that would hold them
 * up. */
static unsigned threads_of(pid_t pid)
{
    char path[64];
    unsigned count = 0;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

TEST(turns_of_one_alone)
{
    struct tenant tenants[] = {{.name = "alone", .settings = "", .load = LOAD}};
    struct watch watch = {0};
    pid_t plain = tenant_start(NULL, "load secs=600 " LOAD " device=1");

    begin_tenants(&watch, tenants, 1);
    while (watch_settles(&watch, 300)) {
        report(&watch);
        settle_share(&watch, 0, 0.90, 1.01);
    }
    CHECK_U(threads_of(tenants[0].pid), ==, threads_of(plain));
    unsigned flags = 0;
    CHECK_U(look_at_arena(&flags), ==, 1);
    CHECK_U(flags, ==, 0);
    CHECK_U(tenant_number("alone", 0, "turns"), ==, 0);
    tenant_end(plain);
    end_tenants(&watch, tenants, 1);
    return 0;
}

/* A kernel that never ends: the other goes on. */
static uint32_t *endless_word;

static void end_endless(int signal)
{
    (void)signal;
    __atomic_store_n(endless_word, 1, __ATOMIC_RELEASE);
}

/* `asks`: the program asks for it, and so others see that it still runs; `waits`: nothing tells
 * them. */
TEST(endless)
{
    CUmodule module = NULL;
    uint32_t value = 1;
    uint64_t address;
    void *arguments[] = {&address, &value};

    tenant_is_one();
    open_device(0);
    CUfunction kernel = new_kernel("simgpu_until", &module);
    CUstream stream = new_stream();
    CU_OK(cu.cuMemHostAlloc((void **)&endless_word, 4096, 0));
    *endless_word = 0;
    address = (uintptr_t)endless_word;
    signal(SIGTERM, end_endless);
    CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    uint64_t begin_ns = now_ns();
    while (!strcmp(argv[0], "asks") && cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        if (now_ns() > begin_ns + 50 * MS)
            sleep_ms(1);
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuMemFreeHost(endless_word));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}

TEST(turns_beside_an_endless_kernel)
{
    static const char *const ways[] = {"asks", "waits"};
    struct tenant tenants[] = {{.name = "other", .settings = "", .load = LOAD}};
    struct watch watch = {0};

    begin_tenants(&watch, tenants, 1);
    tenant_make("endless", "");
    watch_add(&watch, 0, "endless");
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = tenant_start("endless", "endless %s", ways[i]);
        watch_restart(&watch);
        watch_until_busy(&watch, 1);
        while (watch_settles(&watch, 700)) {
            report(&watch);
            settle_gap(&watch, 0, 500);
            settle_share(&watch, 0, 0.25, 1);
        }
        tenant_end(pid);
        tenant_check_empty("endless");
    }
    watch_for(&watch, 300);
    while (watch_settles(&watch, 200)) {
        report(&watch);
        settle_share(&watch, 0, 0.80, 1.01);
    }
    end_tenants(&watch, tenants, 1);
    return 0;
}

/*
 * Kernels on two devices that wait for each other, as a collective's do: they begin once the one
 * before them on each device is done. The two instances begin with different devices.
 */
struct side {
    CUcontext context;
    CUstream stream;
    CUmodule modules[2];
    CUfunction busy, until;
};

static void open_side(struct side *side, int device)
{
    side->context = open_device(device);
    side->stream = new_stream();
    side->busy = new_kernel("simgpu_busy", &side->modules[0]);
    side->until = new_kernel("simgpu_until", &side->modules[1]);
}

static void launch_side(const struct side *side, uint32_t *own, uint32_t *other, uint32_t round)
{
    uint64_t duration_ns = MS, address = (uintptr_t)other;
    void *busy_arguments[] = {&duration_ns}, *until_arguments[] = {&address, &round};

    CU_OK(cu.cuCtxSetCurrent(side->context));
    CU_OK(cu.cuLaunchKernel(side->busy, 1, 1, 1, 1, 1, 1, 0, side->stream, busy_arguments, NULL));
    CU_OK(cu.cuStreamWriteValue32_v2(side->stream, (uintptr_t)own, round, 0));
    CU_OK(cu.cuLaunchKernel(side->until, 1, 1, 1, 1, 1, 1, 0, side->stream, until_arguments, NULL));
}

TEST(collective)
{
    struct side sides[2];
    uint32_t *words = NULL;
    int first = argc > 0 ? atoi(argv[0]) : 0, rounds = argc > 1 ? atoi(argv[1]) : 10;

    tenant_is_one();
    for (int i = 0; i < 2; i++)
        open_side(&sides[i], i);
    CU_OK(cu.cuMemHostAlloc((void **)&words, 4096, 1));
    words[0] = words[16] = 0;
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < 2; i++) {
            int side = first ^ i;
            launch_side(&sides[side], &words[16 * side], &words[16 * !side], (uint32_t)round);
        }
        for (int i = 0; i < 2; i++) {
            CU_OK(cu.cuCtxSetCurrent(sides[i].context));
            while (cu.cuStreamQuery(sides[i].stream) == CUDA_ERROR_NOT_READY)
                ;
            CU_OK(cu.cuStreamSynchronize(sides[i].stream));
        }
    }
    CU_OK(cu.cuMemFreeHost(words));
    for (int i = 0; i < 2; i++) {
        CU_OK(cu.cuCtxSetCurrent(sides[i].context));
        CU_OK(cu.cuStreamDestroy_v2(sides[i].stream));
        for (int j = 0; j < 2; j++)
            CU_OK(cu.cuModuleUnload(sides[i].modules[j]));
        close_device(i);
    }
    return 0;
}

static bool gone(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Another one on one of the devices sees to it that their turns on the two do not come together. */
TEST(turns_of_collectives)
{
    static const char *const names[] = {"forth", "back"};
    struct tenant tenants[] = {{.name = "beside", .settings = "", .load = LOAD}};
    struct watch watch = {0};
    pid_t pids[2];

    begin_tenants(&watch, tenants, 1);
    uint64_t begin_ns = now_ns();
    for (int i = 0; i < 2; i++) {
        tenant_make(names[i], "");
        watch_add(&watch, 1, names[i]);
        pids[i] = tenant_start(names[i], "collective %d 100", i);
    }
    watch_restart(&watch);
    for (unsigned i = 0; i < 2; i++)
        watch_until_busy(&watch, 1 + i);
    for (int i = 0; i < 2; i++)
        while (!gone(pids[i]))
            watch_for(&watch, 5);
    for (int i = 0; i < 2; i++)
        wait_ok(pids[i]);
    report(&watch);
    printf("100 rounds each, against each other: %.1f ms\n", (double)(now_ns() - begin_ns) / 1e6);
    for (int i = 0; i < 2; i++)
        printf("%s: %u turns\n", names[i], (unsigned)tenant_number(names[i], 1, "turns"));
    CHECK_U(now_ns() - begin_ns, <,
            PATIENCE_NS); /* by itself a process gets on after two seconds, each time */
    for (int i = 0; i < 2; i++)
        tenant_check_empty(names[i]);
    end_tenants(&watch, tenants, 1);
    return 0;
}

/* One is stopped, at whatever it was doing then: the other goes on meanwhile; afterwards both
 * do. */
TEST(turns_beside_a_stopped_one)
{
    struct tenant tenants[] = {{.name = "stopped", .settings = "", .load = LOAD},
                               {.name = "other", .settings = "", .load = LOAD}};
    struct watch watch = {0};
    uint64_t seed = (uint64_t)getpid();

    begin_tenants(&watch, tenants, 2);
    for (unsigned ms = 150; ms <= 500; ms += 350) {
        watch_for(&watch, 20 + (unsigned)(random_next(&seed) % 50));
        book_stop_process(tenants[0].pid);
        watch_gains(&watch, 1, ms * MS);
        CHECK(kill(tenants[0].pid, SIGCONT) == 0);
    }
    report(&watch);
    while (watch_settles(&watch, 500)) {
        report(&watch);
        for (unsigned i = 0; i < 2; i++) {
            settle_share(&watch, i, 0.2, 1);
            settle_gap(&watch, i, 500);
        }
    }
    end_tenants(&watch, tenants, 2);
    return 0;
}

/* One is killed again and again, at whatever it was doing then: the other goes on. */
TEST(turns_beside_killed_ones)
{
    struct tenant tenants[] = {{.name = "killed", .settings = "", .load = LOAD},
                               {.name = "other", .settings = "", .load = LOAD}};
    struct watch watch = {0};
    uint64_t seed = (uint64_t)getpid();

    begin_tenants(&watch, tenants, 2);
    for (unsigned i = 0; i < 10; i++) {
        watch_for(&watch, 40 + (unsigned)(random_next(&seed) % 50));
        CHECK(kill(tenants[0].pid, SIGKILL) == 0);
        wait_status(tenants[0].pid);
        tenants[0].pid = tenant_start("killed", "load secs=600 " LOAD);
        watch_gains(&watch, 1, 20 * MS);
    }
    report(&watch);
    watch_until_busy(&watch, 0);
    while (watch_settles(&watch, 600)) {
        report(&watch);
        for (unsigned i = 0; i < 2; i++) {
            settle_part(&watch, i, 0.5, 0.1);
            settle_gap(&watch, i, 200);
        }
    }
    unsigned flags = 0;
    CHECK_U(look_at_arena(&flags), ==, 2); /* the places of the dead are free */
    end_tenants(&watch, tenants, 2);
    return 0;
}

/* An arena that cannot be used, or a folder that is not there: no turns, one line about it, and
 * nothing else. */
TEST(turns_without_arena)
{
    char path[4200], uuid[64];
    const char *const argv_uuid[] = {getenv("TEST_SIMTEST_DL"), "list_uuids", NULL};
    char *text = capture_output(argv_uuid);

    CHECK(sscanf(text, "%63s", uuid) == 1);
    free(text);
    tenant_make("guest", "");
    snprintf(path, sizeof path, "%s/vgpu-%s", getenv("VGPU_ARENA_DIR"), uuid);
    for (unsigned kind = 0; kind < 5; kind++) {
        switch (kind) {
        case 0:
            CHECK(mkdir(path, 0700) == 0);
            break;
        case 1:
            CHECK(rmdir(path) == 0 && mkfifo(path, 0600) == 0);
            break;
        case 2:
            CHECK(unlink(path) == 0 && symlink("/dev/zero", path) == 0);
            break;
        case 3:
            CHECK(unlink(path) == 0 && truncate("/dev/null", 0) <= 0);
            CHECK(close(open(path, O_WRONLY | O_CREAT, 0600)) == 0);
            break;
        default:
            CHECK(truncate(path, 8 << 20) == 0);
        }
        pid_t pid = tenant_start("guest", "load secs=0.3 us=1000 sync=4 least=0.3");
        wait_ok(pid);
    }
    CHECK(unlink(path) == 0);
    CHECK(setenv("VGPU_ARENA_DIR", "/nonexistent", 1) == 0);
    wait_ok(tenant_start("guest", "load secs=0.3 us=1000 sync=4 least=0.3"));
    tenant_check_empty("guest");
    return 0;
}

/* Processes start, end, are killed, fork and exec. They share one quota, and none waits for a dead
 * one. */
#include "harness.h"
#include "ways.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

struct stage {
    atomic_int step;
    atomic_ullong counter;
    atomic_ullong refused;
};

static void await(struct stage *stage, int step)
{
    uint64_t start = now_ns();
    while (atomic_load(&stage->step) < step) {
        CHECK_U(now_ns() - start, <, PATIENCE_NS);
        sleep_ms(1);
    }
}

static pid_t start_process(void (*body)(struct stage *), struct stage *stage)
{
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        body(stage);
        exit(0);
    }
    return pid;
}

/* Has a context and some memory, and waits. */
static void holder(struct stage *stage)
{
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, 200 * MIB));
    int base = atomic_fetch_add(&stage->step, 1);
    (void)base;
    await(stage, 100);
    CU_OK(cu.cuMemFree_v2(address));
    close_device(0);
}

/* A first process comes and goes; what the second does is seen by itself, by a third, and by
 * NVML-less readers. */
static void b5_second(struct stage *stage)
{
    size_t before = 0, after = 0, total = 0;
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemGetInfo_v2(&before, &total));
    CU_OK(cu.cuMemAlloc_v2(&address, 256 * MIB));
    CU_OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK_U(after, ==, before - 256 * MIB);
    check_agreement();
    atomic_store(&stage->step, 1);
    await(stage, 2);
    CU_OK(cu.cuMemFree_v2(address));
    CU_OK(cu.cuMemGetInfo_v2(&after, &total));
    atomic_store(&stage->step, 3);
    await(stage, 4);
    close_device(0);
}

TEST(process_second_one)
{
    struct stage *stage = shared_page(sizeof *stage);
    driver_load();
    for (unsigned i = 0; i < 3; i++) {
        struct stage *first = shared_page(sizeof *first);
        atomic_store(&first->step, 100);
        pid_t pid = start_process(holder, first);
        wait_ok(pid);
    }
    CHECK_U(region_used(0), ==, 0);
    pid_t second = start_process(b5_second, stage);
    await(stage, 1);
    open_device(0);
    size_t with = 0, without = 0, total = 0;
    CU_OK(cu.cuMemGetInfo_v2(&with, &total));
    CHECK_U(with, ==, quota_bytes() - truth_used(0));
    check_agreement();
    atomic_store(&stage->step, 2);
    await(stage, 3);
    CU_OK(cu.cuMemGetInfo_v2(&without, &total));
    CHECK_U(without, ==, with + 256 * MIB);
    atomic_store(&stage->step, 4);
    wait_ok(second);
    CU_OK(cu.cuMemGetInfo_v2(&without, &total));
    CHECK_U(without, ==, quota_bytes() - truth_used(0));
    close_device(0);
    return 0;
}

/* The first is killed; the second needs its memory and gets it; the third goes on. */
TEST(process_neighbour_killed)
{
    struct stage *one = shared_page(sizeof *one), *three = shared_page(sizeof *three);
    pid_t first = start_process(holder, one);
    await(one, 1);
    pid_t third = start_process(holder, three);
    await(three, 1);
    open_device(0);
    CUdeviceptr address = CANARY;
    uint64_t left = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, left + 150 * MIB));
    kill(first, SIGKILL);
    CHECK_U(wait_status(first), ==, 128 + SIGKILL);
    CU_OK(cu.cuMemAlloc_v2(&address, left + 150 * MIB)); /* fits only without the dead */
    atomic_store(&three->step, 100);
    wait_ok(third);
    check_agreement();
    CU_OK(cu.cuMemFree_v2(address));
    close_device(0);
    return 0;
}

/* Somebody is killed again and again in the middle of allocating; nobody who is alive waits for
 * it until its request is refused, as there is room for all. */
static void busy(struct stage *stage)
{
    struct held held;
    open_device(0);
    ways_init();
    const struct way *kinds[] = {way_find("plain"), way_find("async_small"), way_find("vmm")};
    for (unsigned i = 0; atomic_load(&stage->step) < 100; i++) {
        const struct way *way = kinds[i % 3];
        if (way->take(&held) == CUDA_SUCCESS)
            way->drop(&held);
        else
            atomic_fetch_add(&stage->refused, 1);
        atomic_fetch_add(&stage->counter, 1);
    }
    ways_done();
    close_device(0);
}

TEST(process_lock_holder_killed)
{
    enum { KILLS = 30 };
    struct stage *stage = shared_page(sizeof *stage), *victims = shared_page(sizeof *victims);
    uint64_t seed = 4711;
    pid_t workers[2] = {start_process(busy, stage), start_process(busy, stage)};
    for (unsigned i = 0; i < KILLS; i++) {
        pid_t victim = start_process(busy, victims);
        uint64_t count = atomic_load(&victims->counter);
        uint64_t start = now_ns();
        while (atomic_load(&victims->counter) == count && now_ns() - start < PATIENCE_NS)
            usleep(200);
        usleep((useconds_t)(random_next(&seed) % 3000));
        kill(victim, SIGKILL);
        CHECK_U(wait_status(victim), ==, 128 + SIGKILL);
    }
    uint64_t count = atomic_load(&stage->counter), end_ns = now_ns() + PATIENCE_NS;
    while (atomic_load(&stage->counter) < count + 10) { /* still at it */
        CHECK_U(now_ns(), <, end_ns);
        sleep_ms(1);
    }
    atomic_store(&stage->step, 100);
    wait_ok(workers[0]);
    wait_ok(workers[1]);
    printf("%llu calls\n", (unsigned long long)atomic_load(&stage->counter));
    CHECK_U(atomic_load(&stage->refused), ==, 0);
    CHECK_U(truth_used(0), ==, 0);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    check_agreement();
    return 0;
}

/* A process that is stopped (not dead) must not stop the others for longer than the lock's
 * bound. */
struct waker {
    pthread_t thread;
    pid_t pid;
    atomic_bool waiting;
};

/* The simulator's own lock has no bound: whoever is stopped in there is woken after the time that
 * ours is held to. */
static void *waker_thread(void *arg)
{
    struct waker *waker = arg;
    for (unsigned i = 0; i < 250 && atomic_load(&waker->waiting); i++)
        sleep_ms(10);
    kill(waker->pid, SIGCONT);
    return NULL;
}

TEST(process_stopped)
{
    struct stage *stage = shared_page(sizeof *stage);
    uint64_t seed = 99, slowest = 0;
    pid_t worker = start_process(busy, stage);
    open_device(0);
    while (atomic_load(&stage->counter) == 0)
        sleep_ms(1);
    for (unsigned i = 0; i < 15; i++) {
        CUdeviceptr address = 0;
        struct waker waker = {.pid = worker};
        usleep((useconds_t)(random_next(&seed) % 3000));
        kill(worker, SIGSTOP);
        atomic_store(&waker.waiting, true);
        CHECK(pthread_create(&waker.thread, NULL, waker_thread, &waker) == 0);
        uint64_t start = now_ns();
        CUresult result = cu.cuMemAlloc_v2(&address, 4 * MIB);
        uint64_t spent = now_ns() - start;
        slowest = spent > slowest ? spent : slowest;
        atomic_store(&waker.waiting, false);
        pthread_join(waker.thread, NULL);
        if (result == CUDA_SUCCESS)
            CU_OK(cu.cuMemFree_v2(address));
    }
    CHECK_U(slowest, <, PATIENCE_NS / 2);
    atomic_store(&stage->step, 100);
    wait_ok(worker);
    check_agreement();
    close_device(0);
    return 0;
}

/* --- fork and exec --- */

/* A forked child that leaves CUDA alone changes nothing; one that execs a CUDA program gets an
 * account of its own. */
TEST(fork_child_without_cuda)
{
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, 64 * MIB));
    uint64_t used = region_used(0);
    for (unsigned i = 0; i < 20; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            i % 2 ? exit(0) : _exit(0);
        wait_ok(pid);
        CHECK_U(region_used(0), ==, used);
        check_agreement();
    }
    CU_OK(cu.cuMemFree_v2(address));
    pid_t pid = spawn_test("exec_second", NULL);
    wait_ok(pid);
    check_agreement();
    close_device(0);
    return 0;
}

/* A child of a process that uses CUDA: the driver refuses it, and so the same with the library; no
 * charge, no hang. */
TEST(fork_child_with_cuda)
{
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, 64 * MIB));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CUdeviceptr mine = 0;
        printf("child alloc: %d\n", (int)cu.cuMemAlloc_v2(&mine, 4 * MIB));
        printf("child free: %d\n", (int)cu.cuMemFree_v2(address));
        printf("child init: %d\n", (int)cu.cuInit(0));
        exit(0);
    }
    wait_ok(pid);
    CU_OK(cu.cuMemFree_v2(address));
    close_device(0);
    return 0;
}

/* Forks while other threads are inside the library: the child must be able to exec at once. */
struct forker {
    pthread_t thread;
    CUcontext context;
    atomic_bool stop;
};

static void *forker_thread(void *arg)
{
    struct forker *self = arg;
    CU_OK(cu.cuCtxSetCurrent(self->context));
    while (!atomic_load(&self->stop)) {
        CUdeviceptr address = 0;
        CU_OK(cu.cuMemAlloc_v2(&address, 3 * MIB));
        CU_OK(cu.cuMemFree_v2(address));
    }
    return NULL;
}

TEST(fork_while_threads_allocate)
{
    enum { THREADS = 3 };
    struct forker threads[THREADS];
    CUcontext context = open_device(0);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].context = context;
        atomic_store(&threads[i].stop, false);
        CHECK(pthread_create(&threads[i].thread, NULL, forker_thread, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < 40; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60); /* a child that hangs in an inherited lock ends by signal */
            if (i % 4 == 0)
                execl("/proc/self/exe", "simtest", "exec_second", (char *)NULL);
            size_t bytes = 0;
            cu.cuMemGetInfo_v2(&bytes, &bytes);
            _exit(0);
        }
        wait_ok(pid);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        atomic_store(&threads[i].stop, true);
        pthread_join(threads[i].thread, NULL);
    }
    check_agreement();
    close_device(0);
    return 0;
}

TEST(exec_second)
{
    CUdeviceptr address = 0;
    open_device(0);
    uint64_t mine = truth_process(0, getpid());
    CHECK_U(region_held(0, getpid()), ==, mine);
    CU_OK(cu.cuMemAlloc_v2(&address, 32 * MIB));
    CHECK_U(region_held(0, getpid()), ==, mine + 32 * MIB);
    close_device(0);
    return 0;
}

/* exec with memory held: the same pid, but what it held is gone, and no descriptor of ours is left
 * behind. */
TEST(fork_exec_gives_back)
{
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES));
    execl("/proc/self/exe", "simtest", "exec_gave_back", (char *)NULL);
    FAIL("exec: %s", strerror(errno));
}

TEST(exec_gave_back)
{
    char name[64], target[512];
    for (int fd = 3; fd < 200; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        if (strstr(target, "region") || strstr(target, "vgpu") || strstr(target, "simgpu"))
            FAIL("descriptor %d of %s came through exec", fd, target);
    }
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES));
    check_agreement();
    close_device(0);
    return 0;
}

/* Programs that close every descriptor they don't know (daemons do) keep their account, and keep to
 * the quota. */
TEST(descriptors_all_closed)
{
    CUdeviceptr first = 0, second = 0, third = CANARY;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&first, 64 * MIB));
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    CU_OK(cu.cuMemAlloc_v2(&second, 64 * MIB));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY,
          cu.cuMemAlloc_v2(&third, quota_bytes() - truth_used(0) + BLOCK_BYTES));
    CHECK_U(region_held(0, getpid()), ==, truth_process(0, getpid()));
    pid_t pid =
        spawn_test("exec_second", NULL); /* a neighbour comes by, and must not take us for dead */
    wait_ok(pid);
    CU_OK(cu.cuMemFree_v2(first));
    CU_OK(cu.cuMemFree_v2(second));
    CHECK_U(region_held(0, getpid()), ==, truth_process(0, getpid()));
    CHECK_U(truth_used(0), <=, quota_bytes());
    close_device(0);
    return 0;
}

/* Many processes start at once; no queue, no stale file, no seconds. */
TEST(start_process_once)
{
    CUcontext context = NULL;
    driver_load();
    CU_OK(cu.cuInit(0));
    CUresult result = cu.cuDevicePrimaryCtxRetain(&context, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return 0; /* no room for one more context: that is an answer */
    CU_OK(result);
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

TEST(start_many_at_once)
{
    unsigned count = argc > 0 ? (unsigned)atoi(argv[0]) : 60;
    pid_t *pids = calloc(count, sizeof *pids);
    CHECK(pids != NULL);
    uint64_t start = now_ns();
    for (unsigned i = 0; i < count; i++)
        pids[i] = spawn_test("start_process_once", NULL);
    for (unsigned i = 0; i < count; i++)
        wait_ok(pids[i]);
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("%u processes in %.2f s\n", count, seconds);
    CHECK_U(region_procs(), ==, 0);
    free(pids);
    return 0;
}

/* --- 10 000 random steps --- */

struct random_shared {
    atomic_ullong steps, takes, refusals, kills, forks;
    unsigned long long goal;
};

enum { RANDOM_SLOTS = 10, RANDOM_WORKERS = 6 };

static void random_fork(struct random_shared *shared, uint64_t chance)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    atomic_fetch_add(&shared->forks, 1);
    if (pid == 0) {
        if (chance % 3 == 0)
            execl("/proc/self/exe", "simtest", "start_process_once", (char *)NULL);
        if (chance % 3 == 1)
            kill(getpid(), SIGKILL);
        _exit(0);
    }
    int status = wait_status(pid);
    CHECK(status == 0 || (chance % 3 == 1 && status == 128 + SIGKILL));
}

static void random_worker(struct random_shared *shared, uint64_t seed)
{
    struct held held[RANDOM_SLOTS];
    const struct way *kind[RANDOM_SLOTS] = {NULL};
    driver_load();
    CUcontext context = NULL;
    CU_OK(cu.cuInit(0));
    CUresult result = cu.cuDevicePrimaryCtxRetain(&context, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        exit(0); /* no room for one more context: that is an answer */
    CU_OK(result);
    CU_OK(cu.cuCtxSetCurrent(context));
    ways_init();
    while (atomic_fetch_add(&shared->steps, 1) < shared->goal) {
        uint64_t chance = random_next(&seed);
        unsigned slot = (unsigned)(chance % RANDOM_SLOTS);
        const struct way *way = &ways[(chance >> 8) % way_count];
        if ((chance >> 24) % 97 == 0) {
            random_fork(shared, chance >> 32);
        } else if ((chance >> 24) % 193 == 1) {
            _exit(0); /* without giving anything back */
        } else if (kind[slot]) {
            kind[slot]->drop(&held[slot]);
            kind[slot] = NULL;
        } else if (!way->alone && way->counts == WAY_DEVICE &&
                   (!way->available || way->available())) {
            result = way->take(&held[slot]);
            if (result == CUDA_SUCCESS)
                kind[slot] = way;
            else
                CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
            atomic_fetch_add(result == CUDA_SUCCESS ? &shared->takes : &shared->refusals, 1);
        }
    }
    for (unsigned slot = 0; slot < RANDOM_SLOTS; slot++)
        if (kind[slot])
            kind[slot]->drop(&held[slot]);
    ways_done();
    close_device(0);
    exit(0);
}

static pid_t random_start(struct random_shared *shared, uint64_t seed)
{
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        random_worker(shared, seed);
    return pid;
}

/* process_random_steps [SEED [STEPS]]: workers allocate, free, fork and die; some are killed at any
 * point. */
TEST(process_random_steps)
{
    uint64_t seed = argc > 0 ? strtoull(argv[0], NULL, 10) : now_ns() % 1000000;
    struct random_shared *shared = shared_page(sizeof *shared);
    pid_t workers[RANDOM_WORKERS];
    shared->goal = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    printf("seed %" PRIu64 ", %llu steps\n", seed, shared->goal);
    uint64_t state = seed * 2654435761U + 1;
    for (unsigned i = 0; i < RANDOM_WORKERS; i++)
        workers[i] = random_start(shared, random_next(&state));
    unsigned alive = RANDOM_WORKERS;
    uint64_t next_kill =
        50; /* by steps, not by time: a slow machine makes as many of them between two kills */
    while (alive) {
        usleep((useconds_t)(random_next(&state) % 2000));
        uint64_t steps = atomic_load(&shared->steps);
        bool more = steps < shared->goal;
        unsigned victim = (unsigned)(random_next(&state) % RANDOM_WORKERS);
        if (more && steps >= next_kill && workers[victim] > 0) {
            kill(workers[victim], SIGKILL);
            atomic_fetch_add(&shared->kills, 1);
            next_kill = steps + 20 + random_next(&state) % 80;
        }
        for (unsigned i = 0; i < RANDOM_WORKERS; i++) {
            int status = 0;
            if (workers[i] <= 0 || waitpid(workers[i], &status, WNOHANG) != workers[i])
                continue;
            if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
                !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
                FAIL("a worker ended with status 0x%x (seed %" PRIu64 ")", (unsigned)status, seed);
            workers[i] = more ? random_start(shared, random_next(&state)) : 0;
            alive -= !more;
        }
    }
    printf("%llu taken, %llu refused, %llu kills, %llu forks\n", (unsigned long long)shared->takes,
           (unsigned long long)shared->refusals, (unsigned long long)shared->kills,
           (unsigned long long)shared->forks);
    CHECK_U(truth_used(0), ==, 0);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    CHECK_U(region_used(0), ==, 0);
    CHECK_U(region_procs(), ==, 0);
    CHECK_U(shared->takes, >, shared->goal / 10);
    CHECK_U(shared->kills, >=, shared->goal / 200);
    return 0;
}

/*
 * The library is a guest in the program. While its instance waits for a turn, the program may do
 * anything with its streams, contexts, threads and descriptors. It gets the same results as without
 * the library, and soon.
 *
 * `guest TEST [ARGS]` runs TEST (below) as a process of one instance beside a load in another,
 * until its time is over.
 */
#include "starts.h"
#include "tenants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_NS (PATIENCE_NS / 2) /* nothing may take so long; mostly it is 2 s at worst */

TEST(guest)
{
    struct watch watch = {0};

    CHECK(argc >= 1);
    tenant_make("guest", argc > 1 ? argv[1] : "");
    tenant_make("neighbour", "");
    watch_add(&watch, 0, "neighbour");
    pid_t neighbour = tenant_start("neighbour", "load secs=600 us=2000 sync=8");
    watch_until_busy(&watch, 0);
    pid_t guest = tenant_start("guest", "%s", argv[0]);
    int status = wait_status(guest);
    if (status) {
        kill(neighbour, SIGKILL);
        FAIL("%s ended with %d", argv[0], status);
    }
    while (watch_settles(&watch, 200))
        watch_expect(&watch, watch_share(&watch, 0) >= 0.3,
                     "the neighbour has only %.3f of the device afterwards",
                     watch_share(&watch, 0));
    tenant_end(neighbour);
    tenant_check_empty("guest");
    watch_done(&watch);
    return 0;
}

static CUfunction kernel;
static CUmodule module;

/* Of a millisecond, unless it says otherwise. */
static CUresult launch_ns(CUstream stream, uint64_t ns)
{
    void *arguments[] = {&ns};
    return cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static CUresult launch(CUstream stream)
{
    return launch_ns(stream, MS);
}

static CUstream make_stream(unsigned flags)
{
    CUstream stream = NULL;
    CU_OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

/* Until the two instances know of each other, so that from here on launches wait at gates. */
static void contend(CUstream stream)
{
    uint64_t until_ns = now_ns() + 400 * MS;

    while (now_ns() < until_ns) {
        for (unsigned i = 0; i < 4; i++)
            CU_OK(launch(stream));
        CU_OK(cu.cuStreamSynchronize(stream));
    }
}

static void open_and_contend(void)
{
    open_device(0);
    kernel = new_kernel("simgpu_busy", &module);
    contend(NULL);
}

static void close_down(void)
{
    CU_OK(cu.cuCtxSynchronize());
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
}

static void within_bound(uint64_t start_ns, const char *what)
{
    uint64_t took_ns = now_ns() - start_ns;
    if (took_ns > BOUND_NS)
        FAIL("%s took %.1f s", what, (double)took_ns / 1e9);
}

/* Contexts go while work of them stands at the gate; the others go on. */
TEST(guest_contexts)
{
    CUcontext first, second;

    open_and_contend();
    CU_OK(cu.cuCtxGetCurrent(&first));
    for (unsigned round = 0; round < 8; round++) {
        CUfunction before = kernel;
        CUmodule own = NULL;
        CU_OK(cu.cuCtxCreate_v2(&second, 0, 0));
        kernel = new_kernel("simgpu_busy", &own);
        CUstream stream = make_stream(round % 2);
        for (unsigned i = 0; i < 30; i++)
            CU_OK(launch(stream));
        CU_OK(cu.cuCtxSetCurrent(first));
        CUfunction theirs = kernel;
        kernel = before;
        for (unsigned i = 0; i < 5; i++)
            CU_OK(launch(NULL));
        kernel = theirs;
        uint64_t start_ns = now_ns();
        CU_OK(cu.cuCtxDestroy_v2(second));
        within_bound(start_ns, "cuCtxDestroy");
        kernel = before;
        for (unsigned i = 0; i < 5; i++)
            CU_OK(launch(NULL));
        CU_OK(cu.cuStreamSynchronize(NULL));
        within_bound(start_ns, "cuStreamSynchronize");
    }
    close_down();
    return 0;
}

/* The primary context is reset, or released for good, with work at the gate; and used again. */
TEST(guest_reset)
{
    open_and_contend();
    for (unsigned round = 0; round < 6; round++) {
        CUcontext context = NULL;
        for (unsigned i = 0; i < 30; i++)
            CU_OK(launch(NULL));
        uint64_t start_ns = now_ns();
        if (round % 2) {
            CU_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
            CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
        } else {
            CU_OK(cu.cuDevicePrimaryCtxReset_v2(0));
            CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
        }
        within_bound(start_ns, "the end of a primary context");
        CU_OK(cu.cuCtxSetCurrent(context));
        kernel = new_kernel("simgpu_busy", &module);
        for (unsigned i = 0; i < 20; i++)
            CU_OK(launch(NULL));
        CU_OK(cu.cuCtxSynchronize());
    }
    CU_OK(cu.cuDevicePrimaryCtxReset_v2(0));
    return 0;
}

/* A process that ends, in each way, with work at the gate. */
TEST(guest_leaves)
{
    open_and_contend();
    for (unsigned i = 0; i < 100; i++)
        CU_OK(launch(NULL));
    switch (argc ? atoi(argv[0]) : 0) {
    case 1:
        _exit(0);
    case 2:
        kill(getpid(), SIGKILL);
        return 1;
    case 3: {
        char *const words[] = {(char *)"true", NULL};
        execv("/bin/true", words);
        return 1;
    }
    default:
        return 0;
    }
}

TEST(guest_ends)
{
    static const int statuses[] = {0, 0, 128 + SIGKILL, 0};

    for (unsigned round = 0; round < 8; round++) {
        uint64_t start_ns = now_ns();
        pid_t pid = tenant_start(NULL, "guest_leaves %u", round % 4);
        CHECK_U(wait_status(pid), ==, statuses[round % 4]);
        within_bound(start_ns, "a process's end");
    }
    return 0;
}

/* Threads: several launch into one stream, one makes and destroys streams, one asks and waits. */

static atomic_bool over;
static CUcontext shared_context;

static void enter_thread(void)
{
    CU_OK(cu.cuCtxSetCurrent(shared_context));
}

static void *launches(void *stream)
{
    enter_thread();
    while (!atomic_load(&over)) {
        CU_OK(launch_ns(stream, 50000));
        usleep(200);
    }
    return NULL;
}

static void *makes_streams(void *unused)
{
    enter_thread();
    while (!atomic_load(&over)) {
        CUstream stream = make_stream(1);
        for (unsigned i = 0; i < 3; i++)
            CU_OK(launch_ns(stream, 50000));
        CU_OK(cu.cuStreamDestroy_v2(stream));
        usleep(500);
    }
    return unused;
}

static void *asks(void *stream)
{
    enter_thread();
    while (!atomic_load(&over)) {
        CUresult result = cu.cuStreamQuery(stream);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
        usleep(300);
        CU_OK(cu.cuStreamSynchronize(stream));
    }
    return NULL;
}

TEST(guest_threads)
{
    pthread_t threads[6];

    open_and_contend();
    CUstream stream = make_stream(1);
    CU_OK(cu.cuCtxGetCurrent(&shared_context));
    for (unsigned i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL,
                             i < 3   ? launches
                             : i < 5 ? makes_streams
                                     : asks,
                             stream) == 0);
    sleep_ms(1500);
    atomic_store(&over, true);
    for (unsigned i = 0; i < 6; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_down();
    return 0;
}

/* Threads come and go, each with a default stream of its own: afterwards there are turns as
 * before. */

static void *launches_once(void *unused)
{
    uint64_t ns = 100000;
    void *arguments[] = {&ns};

    enter_thread();
    for (unsigned i = 0; i < 2; i++)
        CU_OK(cu.cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    return unused;
}

TEST(guest_short_threads)
{
    pthread_t threads[10];

    open_and_contend();
    CU_OK(cu.cuCtxGetCurrent(&shared_context));
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 10; i++)
            CHECK(pthread_create(&threads[i], NULL, launches_once, NULL) == 0);
        for (unsigned i = 0; i < 10; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CU_OK(cu.cuCtxSynchronize());
    uint64_t turns = tenant_number("guest", 0, "turns");
    uint64_t end_ns = now_ns() + PATIENCE_NS;
    do {
        CHECK_U(now_ns(), <, end_ns);
        contend(NULL);
    } while (tenant_number("guest", 0, "turns") <= turns + 3);
    close_down();
    return 0;
}

/* More streams than there are places for: all wait for the turn. */
struct crowd {
    pthread_t thread;
    CUstream *streams;
    unsigned count;
};

static void *launches_in_all(void *arg)
{
    struct crowd *crowd = arg;

    enter_thread();
    while (!atomic_load(&over)) {
        for (unsigned i = 0; i < crowd->count; i++)
            CU_OK(launch_ns(crowd->streams[i], 100000));
        for (unsigned i = 0; i < crowd->count; i++)
            CU_OK(cu.cuStreamSynchronize(crowd->streams[i]));
    }
    return NULL;
}

TEST(guest_many_streams)
{
    CUstream streams[80];

    open_and_contend();
    for (unsigned i = 0; i < 80; i++)
        streams[i] = make_stream(1);
    struct watch watch = {0};
    watch_add(&watch, 0, "neighbour");
    struct crowd crowd = {.streams = streams, .count = 80};
    CU_OK(cu.cuCtxGetCurrent(&shared_context));
    CHECK(pthread_create(&crowd.thread, NULL, launches_in_all, &crowd) == 0);
    while (watch_settles(&watch, 1000))
        watch_expect(&watch, watch_share(&watch, 0) >= 0.3,
                     "with 80 streams here, the neighbour has only %.3f", watch_share(&watch, 0));
    atomic_store(&over, true);
    pthread_join(crowd.thread, NULL);
    watch_done(&watch);
    for (unsigned i = 0; i < 80; i++)
        CU_OK(cu.cuStreamDestroy_v2(streams[i]));
    close_down();
    return 0;
}

/* A capture is not spoilt by marks, and none is recorded; work before it was on every kind of
 * stream. */
TEST(guest_captures)
{
    open_and_contend();
    CUstream blocking = make_stream(0), other = make_stream(1);
    for (unsigned round = 0; round < 40; round++) {
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        size_t nodes = 0;
        for (unsigned i = 0; i < 4; i++) {
            CU_OK(launch_ns(NULL, 200000));
            CU_OK(launch_ns(blocking, 200000));
            CU_OK(launch_ns(other, 200000));
        }
        CU_OK(cu.cuStreamBeginCapture_v2(blocking, round % 3));
        for (unsigned i = 0; i < 3; i++)
            CU_OK(launch_ns(blocking, 200000));
        for (unsigned i = 0; i < 3; i++) {
            if (round % 3 == CU_STREAM_CAPTURE_MODE_RELAXED)
                CHECK(cu.cuStreamQuery(other) != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            CU_OK(launch_ns(other, 200000));
        }
        sleep_ms(round % 8);
        CU_OK(launch_ns(other, 200000));
        CU_OK(cu.cuStreamEndCapture(blocking, &graph));
        CU_OK(cu.cuGraphGetNodes(graph, NULL, &nodes));
        CHECK_U(nodes, ==, 3);
        CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        CU_OK(cu.cuGraphLaunch(exec, blocking));
        CU_OK(cu.cuStreamSynchronize(blocking));
        CU_OK(cu.cuGraphExecDestroy(exec));
        CU_OK(cu.cuGraphDestroy(graph));
    }
    CU_OK(cu.cuStreamDestroy_v2(blocking));
    CU_OK(cu.cuStreamDestroy_v2(other));
    close_down();
    return 0;
}

/* The simulator keeps its own: closed, it would lose count of what it has been told to do. */
static void close_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");

    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        char path[64], target[300];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (fd < 3 || fd == dirfd(folder) || length < 0)
            continue;
        target[length] = '\0';
        if (!strstr(target, "simgpu"))
            close(fd);
    }
    closedir(folder);
}

/* All descriptors are closed while a third instance comes: whoever has the page then, everybody
 * gets on. */
TEST(guest_closes)
{
    open_and_contend();
    tenant_make("late", "");
    for (unsigned round = 0; round < 2; round++) {
        close_descriptors();
        pid_t late = tenant_start("late", "load secs=1 us=1000 sync=8 least=0.05");
        uint64_t until_ns = now_ns() + 1500 * MS;
        while (now_ns() < until_ns) {
            uint64_t start_ns = now_ns();
            for (unsigned i = 0; i < 4; i++)
                CU_OK(launch(NULL));
            CU_OK(cu.cuStreamSynchronize(NULL));
            within_bound(start_ns, "a launch, or waiting for it,");
        }
        wait_ok(late);
    }
    close_down();
    return 0;
}

/* A fork while other threads launch: the child asks for what it may, and ends; so does one that
 * starts a program. */
TEST(guest_forks)
{
    pthread_t threads[4];

    open_and_contend();
    CUstream stream = make_stream(1);
    CU_OK(cu.cuCtxGetCurrent(&shared_context));
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL,
                             i < 2   ? launches
                             : i < 3 ? makes_streams
                                     : asks,
                             stream) == 0);
    for (unsigned round = 0; round < 60; round++) {
        uint64_t start_ns = now_ns();
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            launch_ns(NULL, 1000);
            cu.cuStreamQuery(NULL);
            cu.cuStreamSynchronize(NULL);
            cu.cuCtxSynchronize();
            if (round % 2 == 0)
                _exit(0);
            char *const words[] = {(char *)"true", NULL};
            execv("/bin/true", words);
            _exit(1);
        }
        CHECK_U(wait_status(pid), ==, 0);
        within_bound(start_ns, "a child");
        sleep_ms(5);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_down();
    return 0;
}

/* errno is the program's. */
TEST(guest_errno)
{
    open_and_contend();
    CUstream stream = make_stream(1);
    for (unsigned i = 0; i < 300; i++) {
        errno = 4711;
        CU_OK(launch(stream));
        CHECK(errno == 4711);
        cu.cuStreamQuery(stream);
        CHECK(errno == 4711);
        CU_OK(cu.cuMemsetD8Async(0, 0, 0, stream));
        CHECK(errno == 4711);
        if (i % 8 == 0)
            CU_OK(cu.cuStreamSynchronize(stream));
    }
    errno = 4711;
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CHECK(errno == 4711);
    close_down();
    return 0;
}

/* The one thread of ours takes no signal that is meant for the program. */

static unsigned helper_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;

    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], line[256], name[64] = "";
        uint64_t blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "SigBlk: %" SCNx64, &blocked);
        }
        if (file)
            fclose(file);
        if (strcmp(name, "vgpu-turns") != 0)
            continue;
        count++;
        for (int number = 1; number < 64;
             number++) /* KILL and STOP cannot be blocked, 32 and 33 are the C library's */
            if (number != SIGKILL && number != SIGSTOP && number != 32 && number != 33 &&
                !(blocked >> (number - 1) & 1))
                FAIL("signal %d is not blocked", number);
    }
    closedir(folder);
    return count;
}

static void count_signal(int number)
{
    (void)number;
    atomic_store(&over, true);
}

TEST(guest_signals)
{
    sigset_t set;

    open_and_contend();
    CHECK_U(helper_threads(), ==, 1);
    /* Blocked here, it stays pending: nobody else takes it. */
    signal(SIGUSR1, count_signal);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    kill(getpid(), SIGUSR1);
    for (unsigned i = 0; i < 50; i++)
        CU_OK(launch(NULL));
    CU_OK(cu.cuStreamSynchronize(NULL));
    close_down();
    return 0;
}

/* Without a context there is nothing to launch in; afterwards all is as before. */
TEST(guest_without_context)
{
    CUcontext context = NULL;

    open_device(0);
    kernel = new_kernel("simgpu_busy", &module);
    CU_OK(cu.cuCtxGetCurrent(&context));
    for (unsigned i = 0; i < 300; i++) {
        CU_OK(cu.cuCtxSetCurrent(NULL));
        CHECK(launch(NULL) != CUDA_SUCCESS);
        sleep_ms(1);
    }
    CU_OK(cu.cuCtxSetCurrent(context));
    contend(NULL);
    CHECK_U(tenant_number("guest", 0, "turns"), >, 3);
    close_down();
    return 0;
}

/* The driver fails here and there (SIMGPU_FAULT): the program does not see it, and everybody gets
 * on. */
TEST(guest_faults)
{
    open_and_contend();
    contend(NULL);
    close_down();
    return 0;
}

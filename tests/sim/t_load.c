/*
 * A tenant's work, for tests of caps and turns and for trying things out by hand.
 *
 *   simtest load [us=1000] [secs=2] [sync=1] [way=kernel] [nodes=1] [device=0] [gap_us=0]
 * [change_us=0] [after=0.3] [least=0] [most=0]
 *
 * Starts work of `us` in a way of starts.c until the time is over (or SIGTERM comes), and waits
 * after each `sync` starts (0: only at the end). After a part of the time the duration becomes
 * change_us. Prints load us=... starts=... share=... book=... longest_ms=... share: time of its
 * starts / wall time; book: the same as the simulator's book has it of its group (SIMGPU_GROUP);
 * longest: the longest time between two waits. The book's may not be more than `most`; as long as
 * it is less than `least`, the load goes on for as long again, for a minute.
 */
#include "starts.h"
#include "tenants.h"

#include <signal.h>

static volatile sig_atomic_t ends;

static void end_load(int signal)
{
    (void)signal;
    ends = 1;
}

static const char *text_option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);

    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static double option(int argc, char **argv, const char *name, double otherwise)
{
    const char *text = text_option(argc, argv, name, NULL);

    return text ? strtod(text, NULL) : otherwise;
}

static void spin_us(double us)
{
    uint64_t until_ns = now_ns() + (uint64_t)(us * 1e3);

    while (now_ns() < until_ns)
        ;
}

struct load {
    double us, secs, gap_us, change_us, after;
    unsigned sync;
    int device;
    uint64_t starts, work_ns, longest_ns;
};

static void run_load(struct load *load, struct start *start)
{
    uint64_t begin_ns = now_ns(), last_ns = begin_ns, now;
    uint64_t end_ns = begin_ns + (uint64_t)(load->secs * 1e9);
    uint64_t change_ns =
        load->change_us > 0 ? begin_ns + (uint64_t)(load->secs * load->after * 1e9) : UINT64_MAX;

    while ((now = now_ns()) < end_ns && !ends) {
        if (now >= change_ns) {
            start_change(start, (uint64_t)(load->change_us * 1e3));
            change_ns = UINT64_MAX;
        }
        CU_OK(start_once(start));
        load->work_ns += start->duration_ns;
        load->starts++;
        if (load->sync && load->starts % load->sync == 0) {
            start_wait(start);
            now = now_ns();
            load->longest_ns = now - last_ns > load->longest_ns ? now - last_ns : load->longest_ns;
            last_ns = now;
        }
        if (load->gap_us > 0)
            spin_us(load->gap_us);
    }
    start_wait(start);
}

/* True: it has had at least so much of each device. */
static bool run_window(struct load *load, struct start *start, const char *way, int devices,
                       double least, double most)
{
    const char *group = getenv("SIMGPU_GROUP");
    uint64_t begin_ns = now_ns(), before_ns[2];
    bool enough = true;

    load->starts = load->work_ns = load->longest_ns = 0;
    for (int i = 0; i < devices; i++)
        before_ns[i] = book_group(load->device + i, group);
    run_load(load, start);
    double wall_ns = (double)(now_ns() - begin_ns), book[2];
    for (int i = 0; i < devices; i++)
        book[i] = (double)(book_group(load->device + i, group) - before_ns[i]) / wall_ns;
    printf("load way=%s us=%.0f starts=%" PRIu64 " share=%.4f book=%.4f longest_ms=%.1f\n", way,
           load->us, load->starts, (double)load->work_ns / wall_ns, book[0],
           (double)load->longest_ns / 1e6);
    for (int i = 0; i < devices; i++) {
        if (book[i] > most)
            FAIL("%s: %.4f of device %d, more than %.3f", way, book[i], load->device + i, most);
        enough = enough && book[i] >= least;
    }
    return enough || ends;
}

TEST(load)
{
    struct load load = {
        .us = option(argc, argv, "us", 1000),
        .secs = option(argc, argv, "secs", 2),
        .gap_us = option(argc, argv, "gap_us", 0),
        .change_us = option(argc, argv, "change_us", 0),
        .after = option(argc, argv, "after", 0.3),
        .sync = (unsigned)option(argc, argv, "sync", 1),
        .device = (int)option(argc, argv, "device", 0),
    };
    double least = option(argc, argv, "least", 0), most = option(argc, argv, "most", 1);
    const char *way = text_option(argc, argv, "way", "kernel");
    struct start start;

    tenant_is_one();
    signal(SIGTERM, end_load);
    open_device(load.device);
    start_prepare(&start, way, (uint64_t)(load.us * 1e3), (unsigned)option(argc, argv, "nodes", 1));
    int devices = start.other ? 2 : 1;
    uint64_t end_ns = now_ns() + PATIENCE_NS;
    while (!run_window(&load, &start, way, devices, least, most))
        if (now_ns() > end_ns)
            FAIL("%s: never %.3f of the device", way, least);
    start_done(&start);
    close_device(load.device);
    return 0;
}

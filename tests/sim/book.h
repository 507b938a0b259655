/*
 * The simulator's own book of device time, the truth that tests of caps and turns compare with:
 * read where the simulator keeps it, so that a look costs some microseconds.
 *
 * A watch looks every two milliseconds and remembers. What is computed from it errs by that much at
 * most, however late it was: between two looks the book itself has gone on.
 */
#ifndef TESTS_SIM_BOOK_H
#define TESTS_SIM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MS 1000000ULL

/* Device time so far, in ns: of everybody; of a group (SIMGPU_GROUP). Devices by physical
 * number. */
uint64_t book_device(int device);
uint64_t book_group(int device, const char *group);

/*
 * The kernels of a process that are done, in their order, as many of the last as there is room for.
 * Their beginnings are right only where no other process had the device meanwhile.
 */
struct book_kernel {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
};
size_t book_kernels(int device, pid_t pid, struct book_kernel *ret_kernels, size_t room);

/* Bytes copied between host and device so far. */
uint64_t book_copied(int device, const char *group, bool to_host);

/*
 * Stops a process at a moment at which it is not inside the simulator's lock: there it would stop
 * the device as well, which a stopped process of a real driver does not.
 */
void book_stop_process(pid_t pid);

#define WATCH_MOST 8

struct watch {
    unsigned count;
    struct {
        int device;
        const char *group; /* NULL: everybody */
    } who[WATCH_MOST];
    struct watch_look {
        uint64_t time_ns;
        uint64_t busy_ns[WATCH_MOST];
    } * looks;
    size_t length, room;
    uint64_t late_ns; /* the longest time between two looks: how much the machine keeps everybody
                         waiting */
    /* Of watch_settles(). */
    unsigned windows;
    uint64_t end_ns;
    char miss[256];
};

/* Returns the number by which the next functions know it. */
unsigned watch_add(struct watch *watch, int device, const char *group);
void watch_for(struct watch *watch, unsigned ms); /* goes on, for so long */
void watch_until_busy(struct watch *watch,
                      unsigned who); /* until it has begun; then all before is forgotten */
void watch_gains(struct watch *watch, unsigned who,
                 uint64_t busy_ns); /* until it has had so much more */
void watch_restart(struct watch *watch);
void watch_done(struct watch *watch);

/* Of the whole time that was watched. */
double watch_share(const struct watch *watch, unsigned who);
/* The longest time in which it had nothing; and the most that it had in any window so long. */
uint64_t watch_longest_gap(const struct watch *watch, unsigned who);
uint64_t watch_most(const struct watch *watch, unsigned who, uint64_t window_ns);
/*
 * What holds once things have settled, on a machine that may be busy with other things: a share of
 * at least so much, an even division. One window of `ms` is watched after the other until all that
 * is expected of it holds, for a minute:
 *
 *     while (watch_settles(&watch, 900))
 *         watch_expect(&watch, watch_share(&watch, 0) > 0.4, "...");
 *
 * What no machine can excuse, more than a cap allows, is not expected but checked, in each window.
 */
bool watch_settles(struct watch *watch, unsigned ms);
void watch_expect(struct watch *watch, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

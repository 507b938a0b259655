/*
 * The simulator's book of device time, which is the truth for tests of caps and turns. A test reads
 * it in the simulator's shared state, in some microseconds.
 *
 * A watch reads the book every two milliseconds and keeps what it read. A machine that is late
 * makes its readings rarer, not wrong.
 */
#ifndef TESTS_SIM_BOOK_H
#define TESTS_SIM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MS 1000000ULL

/* Device time so far in ns, of all processes or of a group (SIMGPU_GROUP). `device` is the physical
 * number. */
uint64_t book_device(int device);
uint64_t book_group(int device, const char *group);

/*
 * The last completed kernels of a process, in their order, as many as there is room for. Their
 * beginnings are right only if no other process had the device meanwhile.
 */
struct book_kernel {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
};
size_t book_kernels(int device, pid_t pid, struct book_kernel *ret_kernels, size_t room);

/* Bytes copied between host and device so far. */
uint64_t book_copied(int device, const char *group, bool to_host);

/*
 * Stops a process while it does not hold the simulator's lock. With the lock it would stop the
 * device too, which a process that is stopped under a real driver does not.
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
    uint64_t late_ns; /* the longest time between two readings: how late the machine is */
    /* watch_settles() keeps: */
    unsigned windows;
    uint64_t end_ns;
    char miss[256];
};

/* Returns its number, `who` of the functions below. */
unsigned watch_add(struct watch *watch, int device, const char *group);
void watch_for(struct watch *watch, unsigned ms);
void watch_until_busy(struct watch *watch, unsigned who); /* until it has had device time */
/* Until it has had so much more device time. Fails after PATIENCE_NS. */
void watch_gains(struct watch *watch, unsigned who, uint64_t busy_ns);
void watch_restart(struct watch *watch); /* forgets the readings */
void watch_done(struct watch *watch);

/* Its part of the device's time since the restart. */
double watch_share(const struct watch *watch, unsigned who);
/* The longest time without device time, and the most device time in a window of that length. */
uint64_t watch_longest_gap(const struct watch *watch, unsigned who);
uint64_t watch_most(const struct watch *watch, unsigned who, uint64_t window_ns);
/*
 * For what holds once the tenants have settled, such as a least share. A busy machine may spoil
 * some windows. The loop watches one window of `ms` after the other, until all that is expected
 * holds in one of them. It fails after a minute:
 *
 *     while (watch_settles(&watch, 900))
 *         watch_expect(&watch, watch_share(&watch, 0) > 0.4, "...");
 *
 * A test checks in each window what no busy machine excuses, such as more than a cap allows.
 */
bool watch_settles(struct watch *watch, unsigned ms);
void watch_expect(struct watch *watch, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

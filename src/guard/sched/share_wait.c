/* Waits for a time to come or for one of three words to change. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "guard/sched/share_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

/* Headers are older than kernels. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define WAIT_32      2u
#define WAIT_PRIVATE 128u

struct wait_word {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static void poll_words(struct share *share, uint64_t ns)
{
    futex_wait(&share->pokes, share->seen_pokes, ns < NS_PER_MS ? ns : NS_PER_MS, 0);
}

void share_wait(struct share *share, uint64_t ns)
{
    KEEP_ERRNO;
    uint64_t until_ns = clock_ns() + (ns < NS_PER_S ? ns : NS_PER_S);
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    struct wait_word words[3] = {
        {.value = share->seen_pokes,
         .address = (uintptr_t)&share->pokes,
         .flags = WAIT_32 | WAIT_PRIVATE},
    };
    struct arena_page *page = share->seen_page;
    unsigned count = 1;

    if (page) {
        words[1] = (struct wait_word){
            .value = share->seen_open, .address = (uintptr_t)&page->granted_turn, .flags = WAIT_32};
        words[2] = (struct wait_word){
            .value = share->seen_wake, .address = (uintptr_t)&page->wake, .flags = WAIT_32};
        count = 3;
    }
    if (syscall(SYS_futex_waitv, words, count, 0, &until, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
        poll_words(share, ns);
}

void share_poke(struct share *share)
{
    atomic_fetch_add(&share->pokes, 1);
    futex_wake(&share->pokes, INT_MAX, 0);
}

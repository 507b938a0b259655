/*
 * Signals come as fast as a timer sends them, while calls wait for the guard. Each call is executed
 * exactly once.
 *
 *   attack_signals [ROUNDS [INTERVAL_US]]   of four or two calls
 */
#include "attack.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile uint64_t arrived;

static void count(int signal)
{
    (void)signal;
    arrived++;
}

static void begin(uint64_t interval_us, int flags)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    struct itimerval timer = {.it_interval.tv_usec = (suseconds_t)interval_us,
                              .it_value.tv_usec = (suseconds_t)interval_us};

    sigemptyset(&action.sa_mask);
    CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQUAL(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void end(void)
{
    CHECK_EQUAL(setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 0}, NULL), 0);
}

/*
 * Until it is executed. A signal whose handler does not restart calls may end one that nobody has
 * looked at yet; then it must not have been executed.
 */
static uint64_t interrupted;

#define UNTIL_DONE(call)                                                                           \
    do {                                                                                           \
        int rc_;                                                                                   \
        while ((rc_ = (call)) == -EINTR)                                                           \
            interrupted++;                                                                         \
        CHECK_EQUAL(rc_, 0);                                                                       \
    } while (0)

/* Each call once: as many allocations, frees and duplicates as were asked for. */
static void check(struct rmclient *client, uint64_t rounds, uint64_t interval_us, int flags)
{
    uint64_t allocations = book(client, 0).allocations, frees = attack_calls(" free "),
             dups = attack_calls(" dup ");

    arrived = interrupted = 0;
    begin(interval_us, flags);
    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t memory = 0, copy = 0;

        UNTIL_DONE(attack_alloc(client, PAGE, &memory));
        if (i % 8 == 0) {
            UNTIL_DONE(rmclient_dup(client, client->client, memory, &copy));
            UNTIL_DONE(rmclient_free(client, copy));
        }
        UNTIL_DONE(rmclient_free(client, memory));
    }
    end();
    fprintf(stderr, "%llu signals in %llu rounds, %llu calls interrupted\n",
            (unsigned long long)arrived, (unsigned long long)rounds,
            (unsigned long long)interrupted);
    CHECK(arrived > 0);
    CHECK(interrupted == 0 || !(flags & SA_RESTART));
    CHECK_EQUAL(book(client, 0).allocations - allocations, rounds);
    CHECK_EQUAL(attack_calls(" free ") - frees, rounds + (rounds + 7) / 8);
    CHECK_EQUAL(attack_calls(" dup ") - dups, (rounds + 7) / 8);
    CHECK_EQUAL(book(client, 0).gpu_used, 0);
    attack_check_room(client);
}

/* Ordinary files are mapped from their beginning, without anybody looking at it: mmap() does not
 * know EINTR. */
static void check_mappings(uint64_t rounds, uint64_t interval_us)
{
    int file = memfd_create("file", MFD_CLOEXEC);

    CHECK(file >= 0);
    CHECK_EQUAL(ftruncate(file, 4096), 0);
    arrived = 0;
    begin(interval_us, 0);
    for (uint64_t i = 0; i < rounds; i++) {
        void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

        CHECK(mapped != MAP_FAILED);
        CHECK_EQUAL(munmap(mapped, 4096), 0);
    }
    end();
    CHECK(arrived > 0);
    CHECK_EQUAL(close(file), 0);
}

int main(int argc, char **argv)
{
    uint64_t rounds = attack_number(argc, argv, 1, 9000),
             interval_us = attack_number(argc, argv, 2, 50);
    struct rmclient client;

    attack_open(&client);
    check(&client, rounds / 2, interval_us, SA_RESTART);
    check(&client, rounds / 2, interval_us, 0);
    check_mappings(rounds, interval_us);
    rmclient_close(&client);
    return 0;
}

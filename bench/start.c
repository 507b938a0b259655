/*
 * What the preload adds to the start of a program: /bin/true with and without it, in turn.
 *
 *   start LIBRARY [ROUNDS]     in ms: what the start takes without the library, and how much more
 *                              with it
 *
 * CPU time (user and system, from exec to exit) and wall-clock time. Of each the tenth of the runs
 * that were disturbed least counts: its slowest run, without and with the library. So a loaded
 * machine gives nearly the same as an idle one.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

struct times {
    double wall_ms, cpu_ms;
};

static double ms_of(const struct timeval *time)
{
    return (double)time->tv_sec * 1e3 + (double)time->tv_usec / 1e3;
}

static struct times run_once(char *const environment[])
{
    char *argv[] = {(char *)"/bin/true", NULL};
    struct timespec start, end;
    struct rusage usage;
    pid_t pid = 0;
    int status = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environment) ||
        wait4(pid, &status, 0, &usage) != pid || status) {
        fprintf(stderr, "start: /bin/true does not run\n");
        exit(2);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (struct times){(double)(end.tv_sec - start.tv_sec) * 1e3 +
                              (double)(end.tv_nsec - start.tv_nsec) / 1e6,
                          ms_of(&usage.ru_utime) + ms_of(&usage.ru_stime)};
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double undisturbed(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 10];
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 400;
    char preload[4200];
    char *plain[] = {NULL}, *preloaded[] = {preload, NULL};
    if (argc < 2 || rounds == 0)
        return 2;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
    double *wall = calloc(rounds, sizeof *wall), *wall_with = calloc(rounds, sizeof *wall_with);
    double *cpu = calloc(rounds, sizeof *cpu), *cpu_with = calloc(rounds, sizeof *cpu_with);
    if (!wall || !wall_with || !cpu || !cpu_with)
        return 2;
    for (unsigned i = 0; i < 10; i++) {
        run_once(plain);
        run_once(preloaded);
    }
    for (unsigned i = 0; i < rounds; i++) {
        struct times with = {0, 0};
        if (i % 2)
            with = run_once(preloaded);
        struct times without = run_once(plain);
        if (i % 2 == 0)
            with = run_once(preloaded);
        wall[i] = without.wall_ms;
        wall_with[i] = with.wall_ms;
        cpu[i] = without.cpu_ms;
        cpu_with[i] = with.cpu_ms;
    }
    double cpu_ms = undisturbed(cpu, rounds), wall_ms = undisturbed(wall, rounds);
    printf("true_cpu %.3f\ntrue_cpu_added %.3f\n", cpu_ms, undisturbed(cpu_with, rounds) - cpu_ms);
    printf("true_wall %.3f\ntrue_wall_added %.3f\n", wall_ms,
           undisturbed(wall_with, rounds) - wall_ms);
    return 0;
}

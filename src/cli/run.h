/* The parts of `vgpu run`. */
#ifndef VGPU_CLI_RUN_H
#define VGPU_CLI_RUN_H

#include "cli/instance.h"

#include <stdbool.h>
#include <sys/types.h>

#define RUN_FAILED         125 /* vgpu itself failed; a message has been written */
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND      127
#define RUN_SIGNAL_BASE    128

/* What the command line says; the texts are the command line's own. */
struct run_options {
    const char *name, *gpu, *mem, *host_mem, *trace; /* NULL: not given */
    const char *cores, *cores_policy, *weight, *priority, *policy, *copy_bw;
    bool sim, stats;
    char **command; /* NULL-terminated */
};

/*
 * From the options to what is asked of an instance. NVML is asked only for --gpu (`nvml`: its path, NULL for the
 * system's). False: a message has been written.
 */
bool run_limits(const struct run_options *options, const char *nvml, struct instance_request *ret_request);

/* The part of it that is about time, but for --cores. */
bool run_compute(const struct run_options *options, struct instance_request *request);

/*
 * Sets this process's environment to what the command gets: the instance, the preloaded library, the trace file, the
 * simulated driver (NULL for the last two: none). False: out of memory, and a message has been written.
 */
bool run_env(const char *instance_dir, const char *library, const char *trace, const char *sim_dir);

/* One NAME=VALUE of --env. False: it is no such thing, and a message has been written. */
bool run_env_set(const char *text);

/*
 * Starts `path` with the arguments `command` and waits for it, passing signals on. Returns what vgpu is to exit with.
 * Does not return where vgpu must die of the signal that the command died of (see run_signals.c); `before_exit` is
 * called in any case.
 */
int run_child(const char *path, char **command, void (*before_exit)(void *argument), void *argument);

/* run_signals.c. To be called in this order; between the first and the last, signals are kept for run_signals_wait().
 */
void run_signals_block(void);
void run_signals_restore(void); /* in the child: as they were before */
void run_signals_watch(void);   /* in the parent, right after the child was made */
/* Passes on what arrives until `child` has ended; returns its status as waitpid() gives it. */
int run_signals_wait(pid_t child);
/* Whether the command and vgpu both got `signal`, by the terminal or as members of the process group. */
bool run_signals_shared(int signal);

/*
 * Makes the file in the instance's folder to which its processes add their counts, or begins from what is in it. False:
 * a message has been written.
 */
bool run_trace_prepare(const char *instance_dir);

/* The summary of a traced run, from the counts in the instance's folder, on stderr and at the end of `file`. */
void run_trace_summary(const char *instance_dir, const char *file);

/*
 * --stats: the instance as it is now, and, on stderr, what it has done since. Both go on without the figures where the
 * region cannot be read, after a warning.
 */
void run_stats_prepare(const char *instance_dir);
void run_stats_summary(const struct instance *instance);

#endif

/* The parts of `vgpu run`. */
#ifndef VGPU_CLI_RUN_H
#define VGPU_CLI_RUN_H

#include "cli/instance.h"
#include "cli/options.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <sys/types.h>

#define RUN_FAILED         125 /* vgpu itself failed; a message has been written */
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND      127
#define RUN_SIGNAL_BASE    128

#define RUN_GO_ON (-1) /* in place of a status to exit with */

/* RUN_GO_ON, or what to exit with; then a message or the help has been written. */
int run_options_take(char **argv, struct run_options *ret_options);

/* Whether the command gets the library. */
static inline bool run_preloads(const struct run_options *options)
{
    return options->guard == GUARD_OFF || options->preload;
}

struct run_guard {
    enum guard_mode mode;
    struct guard *guard;        /* NULL: there is none, or it has ended */
    struct guard_report report; /* once it has ended */
};

/* The folder of the driver's device nodes where it is not /dev; else NULL. */
const char *run_guard_devices(void);

/* The path of NVML that the user has chosen for the guard; NULL: none. */
const char *run_guard_nvml(void);

/*
 * Looks whether the guard that was asked for can work. RUN_GO_ON, with options->guard turned off
 * where it cannot and that was to be put up with; else what to exit with. Messages have been
 * written.
 */
int run_guard_choose(struct run_options *options);

/* The guard of the instance, or none, as the options say. False: a message has been written. */
bool run_guard_new(const struct run_options *options, const struct instance *instance,
                   struct run_guard *ret_guard);

/* Ends it, and says what it found. `result` is what vgpu would exit with; returns what it is to
 * exit with. */
int run_guard_end(struct run_guard *guard, const char *instance_name, int result);

/*
 * From the options to what is asked of an instance. NVML is asked only for --gpu (`nvml`: its path,
 * NULL for the system's). False: a message has been written.
 */
bool run_limits(const struct run_options *options, const char *nvml,
                struct instance_request *ret_request);

/*
 * Inside an instance that the library keeps: makes of the request one to join that. False: it
 * cannot be joined so, and a message has been written.
 */
bool run_inside(const struct run_options *options, struct instance_request *request);

/*
 * After that, and once the instance is entered: the group in it that the command belongs to, 0:
 * none. It is made where the command is to have less than the instance; it stays while this process
 * lives. False: a message has been written.
 */
bool run_inside_group(const char *instance_name, uint64_t *ret_group);

/* The same of --gpu inside an instance: the command sees these of its devices. False: a message has
 * been written. */
bool run_inside_devices(void);

/*
 * Sets this process's environment to what the command gets: the instance, its group there (0:
 * none), the preloaded library, the trace file, the simulated driver (NULL for the last three:
 * none). False: out of memory, and a message has been written.
 */
bool run_env(const char *instance_dir, uint64_t group, const char *library, const char *trace,
             const char *sim_dir);

/*
 * Without the library nobody translates CUDA_VISIBLE_DEVICES at run time: sets it to the devices
 * that the instance selects, or those of them that its value names. False: a message has been
 * written.
 */
bool run_env_devices(const struct vgpu_limits *limits);

/* One NAME=VALUE of --env. False: it is no such thing, and a message has been written. */
bool run_env_set(const char *text);

/*
 * Starts `path` with the arguments `command`, under the guard where that is not NULL, and waits for
 * it, passing signals on. Returns what vgpu is to exit with, which `before_exit` is given and may
 * change. Does not return where vgpu must die of the signal that the command died of (see
 * run_signals.c); `before_exit` is called in any case.
 */
int run_child(const char *path, char **command, struct guard *guard,
              int (*before_exit)(void *argument, int result), void *argument);

/* run_signals.c. To be called in this order; between the first and the last, signals are kept for
 * run_signals_wait().
 */
void run_signals_block(void);
void run_signals_restore(void); /* in the child: as they were before */
void run_signals_watch(void);   /* in the parent, right before the child is made */
/* Passes on what arrives until `child` has ended; returns its status as waitpid() gives it. */
int run_signals_wait(pid_t child);
/* Whether the command and vgpu both got `signal`, by the terminal or as members of the process
 * group. */
bool run_signals_shared(int signal);

/*
 * Makes the file in the instance's folder to which its processes add their counts, or begins from
 * what is in it. False: a message has been written.
 */
bool run_trace_prepare(const char *instance_dir);

/*
 * The summary of a traced run, from the counts in the instance's folder, on stderr and at the end
 * of `file`. False: the file does not have all that it should; a message has been written.
 */
bool run_trace_summary(const char *instance_dir, const char *file);

/*
 * --stats: the instance as it is now, and, on stderr, what it has done since. Both go on without
 * the figures where the region cannot be read, after a warning.
 */
void run_stats_prepare(const char *instance_dir);
void run_stats_summary(const struct instance *instance, const struct run_guard *guard);

#endif

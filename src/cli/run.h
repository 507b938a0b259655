/* The parts of `vgpu run`. */
#ifndef VGPU_CLI_RUN_H
#define VGPU_CLI_RUN_H

#include "cli/instance.h"
#include "cli/options.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <sys/types.h>

#define RUN_FAILED         125 /* vgpu failed; a message was written */
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND      127
#define RUN_SIGNAL_BASE    128

#define RUN_GO_ON (-1) /* in place of an exit status */

/* RUN_GO_ON, or an exit status after a message or the help. */
int run_options_take(char **argv, struct run_options *ret_options);

/* Whether vgpu preloads the library into the command. */
static inline bool run_preloads(const struct run_options *options)
{
    return options->guard == GUARD_OFF || options->preload;
}

struct run_guard {
    enum guard_mode mode;
    struct guard *guard;        /* NULL: there is no guard, or it has ended */
    struct guard_report report; /* valid after the guard has ended */
};

/* The directory of the driver's device nodes; NULL: /dev. */
const char *run_guard_devices(void);

/* The user's path of NVML for the guard; NULL: none. */
const char *run_guard_nvml(void);

/* Checks that the guard can work. RUN_GO_ON; with --guard=permissive it may have turned
 * options->guard off. Otherwise an exit status. Messages were written. */
int run_guard_choose(struct run_options *options);

/* Makes the guard of the instance if the options ask for one. False: a message was written. */
bool run_guard_new(const struct run_options *options, const struct instance *instance,
                   struct run_guard *ret_guard);

/* Ends the guard and reports what it found. Takes vgpu's exit status and returns the new one. */
int run_guard_end(struct run_guard *guard, const char *instance_name, int result);

/* Makes the request for an instance from the options. `nvml`: the path of NVML, NULL for the
 * system's; only numbered devices need it. False: a message was written. */
bool run_limits(const struct run_options *options, const char *nvml,
                struct instance_request *ret_request);

/* Inside an instance that the library keeps, turns the request into one to join that instance.
 * False: a message was written. */
bool run_inside(const struct run_options *options, struct instance_request *request);

/*
 * After run_inside() and instance_enter(): the command's group in the instance; 0: none. Makes a
 * group if the command has lower limits than the instance; it exists while this process lives.
 * False: a message was written.
 */
bool run_inside_group(const char *instance_name, uint64_t *ret_group);

/* After that, inside an instance: shows the command the devices of --gpu. False: a message was
 * written. */
bool run_inside_devices(void);

/* Sets the environment for the command: instance, group (0: none), preloaded library, trace file
 * and simulated driver (NULL: none). False: out of memory, and a message was written. */
bool run_env(const char *instance_dir, uint64_t group, const char *library, const char *trace,
             const char *sim_dir);

/* Sets CUDA_VISIBLE_DEVICES to the instance's devices that its value names, or to all of them;
 * without the library no process translates it at run time. False: a message was written. */
bool run_env_devices(const struct vgpu_limits *limits);

/* Sets the variable of --env NAME=VALUE. False: the form is wrong, and a message was written. */
bool run_env_set(const char *text);

/*
 * Starts `path` with the arguments `command`, waits for it and passes signals on. `guard`: NULL or
 * the guard to run it under. Calls `before_exit` with vgpu's exit status, which that may change,
 * and returns the result. Does not return if vgpu must die of the same signal as the command
 * (run_signals.c).
 */
int run_child(const char *path, char **command, struct guard *guard,
              int (*before_exit)(void *argument, int result), void *argument);

/* Call in this order. Between the first and the last, signals wait for run_signals_wait(). */
void run_signals_block(void);
void run_signals_restore(void); /* in the child: as before */
void run_signals_watch(void);   /* in the parent, right before the fork */
/* Passes signals on until `child` has ended. Returns its status as waitpid() does. */
int run_signals_wait(pid_t child);
/* Whether both the command and vgpu received `signal`, from the terminal or as members of the
 * process group. */
bool run_signals_shared(int signal);

/* Makes the file in the instance's directory to which processes add their counts, or records what
 * it already counts. False: a message was written. */
bool run_trace_prepare(const char *instance_dir);

/* Writes the summary of a traced run to stderr and to the end of `file`. False: the file is
 * incomplete, and a message was written. */
bool run_trace_summary(const char *instance_dir, const char *file);

/* --stats: records the usage of the instance, and prints what was added since to stderr. If the
 * region cannot be read, both warn and go on. */
void run_stats_prepare(const char *instance_dir);
void run_stats_summary(const struct instance *instance, const struct run_guard *guard);

#endif

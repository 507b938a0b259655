/*
 * The subcommands: one function each, in a file of its name. `argv` begins with the subcommand's
 * own name and ends with NULL. Each returns what vgpu is to exit with.
 */
#ifndef VGPU_CLI_COMMANDS_H
#define VGPU_CLI_COMMANDS_H

#include <stdbool.h>

#define STATUS_OK     0
#define STATUS_FAILED 1
#define STATUS_USAGE  2

int command_run(char **argv);
int command_ps(char **argv);
int command_pause(char **argv);
int command_resume(char **argv);
int command_doctor(char **argv);
int command_version(char **argv);
int command_help(char **argv);

/*
 * For commands that take nothing but --help and --json (`ret_json` may be NULL) and up to one
 * operand (`ret_operand` may be NULL). True: go on. False: return *ret_status (the help has been
 * shown, or a message written).
 */
bool command_options(char **argv, bool *ret_json, const char **ret_operand, int *ret_status);

/* stdout is flushed and checked: 0, or STATUS_FAILED after a message. */
int command_finish_output(void);

struct cli_option;

/*
 * Reads what follows a command's name in argv[0]. Operands are moved to the front of argv + 1, and
 * end with NULL. Each option but --help goes to `take` with `data`; without `take`, the command has
 * no other. False: it is over, with *ret_status, after --help or a message.
 */
bool command_take(char **argv,
                  bool (*take)(const struct cli_option *option, const char *value, void *data),
                  void *data, unsigned *ret_count, int *ret_status);

#endif

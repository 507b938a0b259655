/*
 * The functions of the commands, one for each COMMAND row of spec/cli.def. `argv` begins with the
 * command's own name and ends with NULL. Each returns what vgpu is to exit with.
 */
#ifndef VGPU_CLI_COMMANDS_H
#define VGPU_CLI_COMMANDS_H

#define STATUS_OK     0
#define STATUS_FAILED 1
#define STATUS_USAGE  2

#define COMMAND(id, page, arguments, summary) int command_##id(char **argv);
#include "cli.def"

/* Flushes stdout. Returns STATUS_OK, or STATUS_FAILED after a message. */
int command_finish_output(void);

#endif

/* Prints the help of spec/cli.def, laid out for a terminal. */
#ifndef VGPU_CLI_HELP_H
#define VGPU_CLI_HELP_H

#include <stdio.h>

/* The help of a command of cli_commands; "vgpu" has the overview. */
void help_print(FILE *out, const char *command);

/* The list of commands, for a user who typed only `vgpu`. */
void help_print_short(FILE *out);

#endif

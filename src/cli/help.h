/* Help texts, laid out from spec/cli.def for a terminal. */
#ifndef VGPU_CLI_HELP_H
#define VGPU_CLI_HELP_H

#include <stdio.h>

/* `command` is a row of cli_commands; "vgpu" gives the overview. */
void help_print(FILE *out, const char *command);

/* What there is, in a few lines: for who has typed the command alone. */
void help_print_short(FILE *out);

#endif

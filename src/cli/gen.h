/* Makes the documentation from spec/cli.def and spec/config.def at build time. Each function writes
 * one whole file to `out`. */
#ifndef VGPU_CLI_GEN_H
#define VGPU_CLI_GEN_H

#include "base/setting.h"

#include <stdio.h>

extern const char *const gen_setting_helps[SETTINGS];

/* The accepted values of a setting, for display. */
#define GEN_RANGE_BYTES 256
const char *gen_setting_range(enum setting setting, char *buffer, size_t size);

void gen_man(FILE *out, const char *command);
/* Copies the man page `template_file`, with the settings in place of the line @ENVIRONMENT@ and the
 * version in place of @VERSION@. */
int gen_man_library(FILE *out, const char *template_file); /* 0 or -errno */

void gen_bash(FILE *out);
void gen_zsh(FILE *out);
void gen_fish(FILE *out);

#endif

/* Making the documentation from spec/cli.def and spec/config.def, at build time. Each writes one
 * whole file to `out`.
 */
#ifndef VGPU_CLI_GEN_H
#define VGPU_CLI_GEN_H

#include <stdio.h>

struct gen_setting {
    const char *env, *type, *range, *initial, *help;
};
extern const struct gen_setting gen_settings[]; /* ends with env == NULL */

void gen_man(FILE *out, const char *command);
/* `template_file` is a man page in which the line @ENVIRONMENT@ stands for the settings and
 * @VERSION@ for the version.
 */
int gen_man_library(FILE *out, const char *template_file); /* 0 or -errno */

void gen_bash(FILE *out);
void gen_zsh(FILE *out);
void gen_fish(FILE *out);

void gen_markdown(FILE *out);

#endif

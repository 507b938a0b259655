/* The parsed options of a command: one field for each OPTION row of spec/cli.def, with the C type
 * of CLI_TYPE_LIST. The command line owns the texts. */
#ifndef VGPU_CLI_OPTIONS_H
#define VGPU_CLI_OPTIONS_H

#include "base/parse.h"
#include "cli/table.h"
#include "guard/guard.h"

struct options_number {
    const char *text; /* NULL: not given */
    uint64_t value;   /* bytes, or the index of a word in cli_words() */
};

struct options_list {
    const char *text; /* NULL: not given */
    struct quota_list list;
};

#define X(type, c_type, parser) typedef c_type option_##type;
CLI_TYPE_LIST(X)
#undef X

struct vgpu_options {
#define OPTION_vgpu(field, type) option_##type field;
#include "cli.def"
};

struct run_options {
#define OPTION_run(field, type) option_##type field;
#include "cli.def"
    char **command; /* NULL-terminated */
};

/* The row of an option of `vgpu run`, by its field. */
#define RUN_OPTION(field) cli_option_of("run", offsetof(struct run_options, field))

struct ps_options {
#define OPTION_ps(field, type) option_##type field;
#include "cli.def"
};

struct doctor_options {
#define OPTION_doctor(field, type) option_##type field;
#include "cli.def"
};

/*
 * Parses the words after `argv[0]` by the rows of `command`, into its options struct, which the
 * caller has zeroed. *ret_operands receives the operands, NULL-terminated, in the place of argv's
 * words. For `run` and `vgpu` they begin at the first operand, with all words after it. Returns
 * false after an error or --help: a message or the help was written, and *ret_status is vgpu's exit
 * status.
 */
bool options_parse(const char *command, char **argv, void *options, char ***ret_operands,
                   int *ret_status);

#endif

/* The rows of spec/cli.def as constant data, and the scanner of a command line. The command and
 * gen_docs, which makes its documentation, share them. */
#ifndef VGPU_CLI_TABLE_H
#define VGPU_CLI_TABLE_H

#include "base/parse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The types of options and operands: X(suffix, C type of the field in the options struct, parser in
 * cli/options.c). Types without a parser are for operands, and HELP is for --help. */
#define CLI_TYPE_LIST(X)                                                                           \
    X(HELP, bool, NULL)                                                                            \
    X(COMMAND, const char *, NULL) /* a program and its arguments, which end the options */        \
    X(PROGRAM, const char *, NULL)                                                                 \
    X(SUBCOMMAND, const char *, NULL)                                                              \
    X(FLAG, bool, parse_flag)                                                                      \
    X(VARIABLE, bool, parse_variable) /* may be given again */                                     \
    X(FILE, const char *, parse_text)                                                              \
    X(GPUS, const char *, parse_text)                                                              \
    X(INSTANCE, const char *, parse_name)                                                          \
    X(NUMBER, struct options_number, parse_number)                                                 \
    X(SIZE, struct options_number, parse_size)                                                     \
    X(RATE, struct options_number, parse_size)                                                     \
    X(QUOTAS, struct options_list, parse_quotas)                                                   \
    X(PERCENTS, struct options_list, parse_percents)                                               \
    X(CAP_POLICY, struct options_number, parse_word)                                               \
    X(TURN_POLICY, struct options_number, parse_word)                                              \
    X(GUARD_MODE, enum guard_mode, parse_guard_mode)

enum cli_type {
#define X(type, c_type, parser) CLI_##type,
    CLI_TYPE_LIST(X)
#undef X
};

/* Rows belong to the command named `command`; "vgpu" is the command without a subcommand. */
struct cli_command {
    const char *name;
    bool page; /* it has a man page */
    const char *arguments;
    const char *summary;
};

struct cli_text {
    const char *command;
    bool manual; /* not in the help */
    const char *text;
};

struct cli_option {
    const char *command;
    size_t offset;    /* of the field in the command's options struct */
    const char *name; /* without the dashes */
    enum cli_type type;
    const char *argument; /* "": it takes none; "[=NAME]": it may have one, in the same word */
    const char *help;
    uint64_t min, max; /* of the value; max 0: there is none */
    const char *unit;
    const char *initial;  /* the value without the option, for display; NULL: none */
    const char *examples; /* values for completion, divided by blanks; NULL: none */
    char letter;          /* its short form; '\0': none */
    bool library; /* of run: only the preloaded library keeps it; its field begins with a text */
};

struct cli_operand {
    const char *command;
    const char *name;
    enum cli_type type;
    const char *help;
};

/* An exit status or an example, and its meaning. */
struct cli_entry {
    const char *command;
    const char *term;
    const char *help;
};

/* A word for an option; its index is the stored value. */
struct cli_word {
    const char *name;
    const char *meaning; /* NULL: no user can choose it */
};

/* Each ends with a row whose first member is NULL. The first command is "vgpu". */
extern const struct cli_command cli_commands[];
extern const struct cli_text cli_texts[];
extern const struct cli_option cli_options[];
extern const struct cli_operand cli_operands[];
extern const struct cli_entry cli_exits[];
extern const struct cli_entry cli_examples[];

/* The value of a macro, as text. */
#define CLI_TEXT_OF(macro) CLI_TEXT_OF_(macro)
#define CLI_TEXT_OF_(text) #text

const struct cli_command *cli_find_command(const char *name); /* NULL: there is none */

/* The option with its field at `offset` of the command's options struct. */
const struct cli_option *cli_option_of(const char *command, size_t offset);

/* The words of a type; NULL: it has none. */
const struct cli_word *cli_words(enum cli_type type, unsigned *ret_count);
/* The word of a stored value; NULL: none was chosen; "?": the value is out of range. */
const char *cli_word_name(enum cli_type type, uint64_t value);
/* The value of a word that users can choose; -1: there is none of that name. */
int cli_word_index(enum cli_type type, const char *name);

/* Whether the argument is optional; it then follows a '='. */
bool cli_argument_optional(const struct cli_option *option);
/* The argument's name, "NAME" of "[=NAME]" too; print it with %.*s. */
int cli_argument_name(const struct cli_option *option, const char **ret_name);
/* The text between the option's name and its argument: " " or "". */
const char *cli_argument_gap(const struct cli_option *option);

/* "1 MiB", "1.5 GiB". Returns `buffer`. */
const char *cli_size_text(uint64_t bytes, char buffer[SIZE_TEXT_BYTES]);
/* "1 to 100 percent", "1 MiB or more"; "": any value. Returns `buffer`. */
#define CLI_HELP_BYTES 1024
const char *cli_range(const struct cli_option *option, char *buffer, size_t size);
/* The option's help, its words, range and initial value. Returns `buffer`. */
const char *cli_help(const struct cli_option *option, char *buffer, size_t size);

/* The command with the nearest name; NULL: none is near. */
const char *cli_nearest_command(const char *word);

/* Scans the words of one command. `argv` begins at the first word after the command's name. */
struct cli_parse {
    const char *command;
    char **argv;
    bool options_end_at_operand; /* the first operand and the words after it are not vgpu's */
    bool options_ended;
};

enum cli_item { ITEM_END, ITEM_OPTION, ITEM_OPERAND, ITEM_ERROR };

/*
 * The next item. ITEM_OPTION: *ret_option is the option, and *ret_value its argument (NULL: an
 * optional one is missing). ITEM_OPERAND: *ret_value is the operand; with options_end_at_operand
 * `argv` still points at it, and the scan is over. ITEM_ERROR: a message was written.
 */
enum cli_item cli_next(struct cli_parse *parse, const struct cli_option **ret_option,
                       const char **ret_value);

#endif

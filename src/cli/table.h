/*
 * spec/cli.def as data, and the parser that follows it. Shared by the command and by the program
 * that makes its documentation. Everything here is constant; the parser writes only to its own
 * struct.
 */
#ifndef VGPU_CLI_TABLE_H
#define VGPU_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* One value for each `opt` of cli.def. */
enum cli_opt {
    OPT_HELP,
    OPT_VERSION,
    OPT_JSON,
    OPT_QUIET,
    OPT_NO_HEADER,
    OPT_WATCH,
    OPT_NAME,
    OPT_GPU,
    OPT_MEM,
    OPT_HOST_MEM,
    OPT_CORES,
    OPT_CORES_POLICY,
    OPT_WEIGHT,
    OPT_PRIORITY,
    OPT_POLICY,
    OPT_COPY_BW,
    OPT_ENV,
    OPT_TRACE,
    OPT_STATS,
    OPT_SIM,
    OPT_GUARD,
    OPT_PRELOAD
};

/* What a shell may offer in the place of an argument. */
enum cli_complete {
    COMPLETE_NONE,
    COMPLETE_FILE,
    COMPLETE_COMMAND,
    COMPLETE_SUBCOMMAND,
    COMPLETE_INSTANCE,
    COMPLETE_GPU,
    COMPLETE_SIZE,  /* bytes */
    COMPLETE_QUOTA, /* bytes or a percentage */
    COMPLETE_RATE,  /* bytes a second */
    COMPLETE_PERCENT,
    COMPLETE_WEIGHT,
    COMPLETE_PRIORITY,
    COMPLETE_CAP_POLICY,
    COMPLETE_TURN_POLICY,
    COMPLETE_GUARD_MODE
};

/* Rows belong to the command named `command`; "vgpu" is the command without a subcommand. */
struct cli_command {
    const char *name;
    const char *arguments;
    const char *summary;
};

struct cli_text {
    const char *command;
    const char *text;
};

struct cli_option {
    const char *command;
    enum cli_opt opt;
    const char *name;     /* without the dashes */
    const char *argument; /* NULL: it takes none; "[=NAME]": it may have one, in the same word */
    enum cli_complete complete;
    const char *help;
};

struct cli_operand {
    const char *command;
    const char *name;
    enum cli_complete complete;
    const char *help;
};

/* An exit status or an example: what stands on the left, and what it means. */
struct cli_entry {
    const char *command;
    const char *term;
    const char *help;
};

/* Each ends with a row whose first member is NULL. */
extern const struct cli_command cli_commands[];
extern const struct cli_text cli_texts[];
extern const struct cli_option cli_options[];
extern const struct cli_operand cli_operands[];
extern const struct cli_entry cli_exits[];
extern const struct cli_entry cli_examples[];

const struct cli_command *cli_find_command(const char *name); /* NULL: there is none */

/* Whether the option may stand without its argument, which then only a '=' can bring. */
bool cli_argument_optional(const struct cli_option *option);
/* "NAME" of "[=NAME]" too, for messages and completion; to be printed with %.*s. */
int cli_argument_name(const struct cli_option *option, const char **ret_name);
/* What stands between an option's name and its argument's text: " " or "". */
const char *cli_argument_gap(const struct cli_option *option);

/* The command whose name is nearest to `word`, NULL where none is near. The same for the options of
 * a command. */
const char *cli_nearest_command(const char *word);
const char *cli_nearest_option(const char *command, const char *word);

/* Walks over the options of one command. Point `argv` at the first word after the command's
 * name. */
struct cli_parse {
    const char *command;
    char **argv;
    bool options_end_at_operand; /* `run`: what follows the first operand is not ours */
    bool options_ended;
};

enum cli_item { ITEM_END, ITEM_OPTION, ITEM_OPERAND, ITEM_ERROR };

/*
 * The next item. ITEM_OPTION: *ret_option is set and, where it takes one, *ret_value (NULL where it
 * may be left out and is). ITEM_OPERAND: *ret_value is it; with options_end_at_operand, `argv`
 * still points at it and the walk is over. ITEM_ERROR: a message has been written.
 */
enum cli_item cli_next(struct cli_parse *parse, const struct cli_option **ret_option,
                       const char **ret_value);

#endif

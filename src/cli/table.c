#include "cli/table.h"

#include "cli/message.h"

#include <string.h>

#define COMMAND(id, arguments, summary)
#define TEXT(id, text)
#define OPTION(id, opt, name, argument, complete, help)
#define OPERAND(id, name, complete, help)
#define EXIT(id, status, help)
#define EXAMPLE(id, line, help)
#define HINT(id, word, name)

#undef COMMAND
#define COMMAND(id, arguments, summary) {#id, arguments, summary},
const struct cli_command cli_commands[] = {
#include "cli.def"
    {NULL, NULL, NULL}};
#undef COMMAND
#define COMMAND(id, arguments, summary)

#undef TEXT
#define TEXT(id, text) {#id, text},
const struct cli_text cli_texts[] = {
#include "cli.def"
    {NULL, NULL}};
#undef TEXT
#define TEXT(id, text)

#undef OPTION
#define OPTION(id, opt, name, argument, complete, help)                                            \
    {#id, OPT_##opt, name, argument, COMPLETE_##complete, help},
const struct cli_option cli_options[] = {
#include "cli.def"
    {NULL, OPT_HELP, NULL, NULL, COMPLETE_NONE, NULL}};
#undef OPTION
#define OPTION(id, opt, name, argument, complete, help)

#undef OPERAND
#define OPERAND(id, name, complete, help) {#id, name, COMPLETE_##complete, help},
const struct cli_operand cli_operands[] = {
#include "cli.def"
    {NULL, NULL, COMPLETE_NONE, NULL}};
#undef OPERAND
#define OPERAND(id, name, complete, help)

#undef EXIT
#define EXIT(id, status, help) {#id, status, help},
const struct cli_entry cli_exits[] = {
#include "cli.def"
    {NULL, NULL, NULL}};
#undef EXIT
#define EXIT(id, status, help)

#undef EXAMPLE
#define EXAMPLE(id, line, help) {#id, line, help},
const struct cli_entry cli_examples[] = {
#include "cli.def"
    {NULL, NULL, NULL}};
#undef EXAMPLE
#define EXAMPLE(id, line, help)

#undef HINT
#define HINT(id, word, name) {#id, word, name},
static const struct cli_entry cli_hints[] = {
#include "cli.def"
    {NULL, NULL, NULL}};

const struct cli_command *cli_find_command(const char *name)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, name))
            return c;
    return NULL;
}

bool cli_argument_optional(const struct cli_option *option)
{
    return option->argument && option->argument[0] == '[';
}

const char *cli_argument_gap(const struct cli_option *option)
{
    return option->argument && !cli_argument_optional(option) ? " " : "";
}

int cli_argument_name(const struct cli_option *option, const char **ret_name)
{
    size_t around = cli_argument_optional(option) ? 2 : 0; /* "[=" */

    *ret_name = option->argument + around;
    return (int)(strlen(*ret_name) - around / 2);
}

#define WORD_MAX 32

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Insertions, deletions, replacements and swaps of neighbours between two words; WORD_MAX for
 * longer words. */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t cost[WORD_MAX + 1][WORD_MAX + 1];

    if (la > WORD_MAX || lb > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= la; i++)
        cost[i][0] = i;
    for (size_t j = 0; j <= lb; j++)
        cost[0][j] = j;
    for (size_t i = 1; i <= la; i++)
        for (size_t j = 1; j <= lb; j++) {
            cost[i][j] = min3(cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                              cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    return cost[la][lb];
}

struct nearest {
    const char *name;
    size_t distance;
};

/* A name is near if less than half of the word is wrong; a name that the word begins is nearer than
 * that. */
static void consider(struct nearest *nearest, const char *word, const char *name)
{
    size_t length = strlen(word);
    size_t d = length && !strncmp(name, word, length) ? 0 : distance(word, name);
    size_t longest = length > strlen(name) ? length : strlen(name);

    if (2 * d < longest && d < nearest->distance)
        *nearest = (struct nearest){name, d};
}

const char *cli_nearest_command(const char *word)
{
    struct nearest nearest = {NULL, WORD_MAX};

    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, "vgpu"))
            consider(&nearest, word, c->name);
    return nearest.name;
}

const char *cli_nearest_option(const char *command, const char *word)
{
    struct nearest nearest = {NULL, WORD_MAX};

    for (const struct cli_entry *hint = cli_hints; hint->command; hint++)
        if (!strcmp(hint->command, command) && !strcmp(hint->term, word))
            return hint->help;
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command))
            consider(&nearest, word, o->name);
    return nearest.name;
}

static const struct cli_option *find_option(const char *command, const char *name, size_t length)
{
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command) && strlen(o->name) == length &&
            !memcmp(o->name, name, length))
            return o;
    return NULL;
}

static enum cli_item unknown_option(const char *command, const char *word, size_t length)
{
    bool top = !strcmp(command, "vgpu");
    char name[WORD_MAX + 1] = "";
    const char *nearest = NULL;

    if (length <= WORD_MAX) {
        memcpy(name, word, length);
        nearest = cli_nearest_option(command, name + strspn(name, "-"));
    }
    message_error("%s%sthere is no option %.*s%s%s%s; `vgpu help%s%s` lists what there is",
                  top ? "" : command, top ? "" : ": ", (int)length, word,
                  nearest ? " (did you mean --" : "", nearest ? nearest : "", nearest ? "?)" : "",
                  top ? "" : " ", top ? "" : command);
    return ITEM_ERROR;
}

static enum cli_item take_option(struct cli_parse *parse, const char *word,
                                 const struct cli_option **ret_option, const char **ret_value)
{
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct cli_option *option = NULL;

    if (!strcmp(word, "-h"))
        option = find_option(parse->command, "help", 4);
    else if (!strcmp(word, "-V"))
        option = find_option(parse->command, "version", 7);
    else if (!strcmp(word, "-q"))
        option = find_option(parse->command, "quiet", 5);
    else if (word[1] == '-')
        option = find_option(parse->command, word + 2, length - 2);
    if (!option)
        return unknown_option(parse->command, word, length);
    if (!option->argument && equals) {
        message_error("%s: --%s takes no value, but got \"%s\"", parse->command, option->name,
                      equals + 1);
        return ITEM_ERROR;
    }
    if (option->argument && cli_argument_optional(option)) {
        *ret_value = equals ? equals + 1 : NULL;
    } else if (option->argument) {
        if (!equals && (!*parse->argv || !strcmp(*parse->argv, "--"))) {
            message_error("%s: --%s needs a value: --%s %s", parse->command, option->name,
                          option->name, option->argument);
            return ITEM_ERROR;
        }
        *ret_value = equals ? equals + 1 : *parse->argv++;
    }
    *ret_option = option;
    return ITEM_OPTION;
}

enum cli_item cli_next(struct cli_parse *parse, const struct cli_option **ret_option,
                       const char **ret_value)
{
    const char *word = *parse->argv;

    if (!word)
        return ITEM_END;
    if (!parse->options_ended && !strcmp(word, "--")) {
        parse->options_ended = true;
        word = *++parse->argv;
        if (!word)
            return ITEM_END;
    }
    if (parse->options_ended || word[0] != '-' || !word[1]) {
        *ret_value = word;
        if (parse->options_end_at_operand)
            parse->options_ended = true;
        else
            parse->argv++;
        return ITEM_OPERAND;
    }
    parse->argv++;
    return take_option(parse, word, ret_option, ret_value);
}

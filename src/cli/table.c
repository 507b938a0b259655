#include "cli/options.h"

#include "cli/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct cli_command cli_commands[] = {
#define PAGE                                  true
#define NO_PAGE                               false
#define COMMAND(id, page, arguments, summary) {#id, page, arguments, summary},
#include "cli.def"
#undef PAGE
#undef NO_PAGE
    {0}};

const struct cli_text cli_texts[] = {
#define TEXT(id, text)   {#id, false, text},
#define MANUAL(id, text) {#id, true, text},
#include "cli.def"
    {0}};

/* --help comes last, as an option of every command. */
const struct cli_option cli_options[] = {
#define OPTION(id, field, option_name, option_type, argument_name, help_text, ...)                 \
    {.command = #id,                                                                               \
     .offset = offsetof(struct id##_options, field),                                               \
     .name = option_name,                                                                          \
     .type = CLI_##option_type,                                                                    \
     .argument = argument_name,                                                                    \
     .help = help_text,                                                                            \
     __VA_ARGS__},
#include "cli.def"
#define COMMAND(id, page, arguments, summary)                                                      \
    {.command = #id,                                                                               \
     .name = "help",                                                                               \
     .type = CLI_HELP,                                                                             \
     .argument = "",                                                                               \
     .help = "show this help and exit",                                                            \
     .letter = 'h'},
#include "cli.def"
    {0}};

const struct cli_operand cli_operands[] = {
#define OPERAND(id, name, type, help) {#id, name, CLI_##type, help},
#include "cli.def"
    {0}};

const struct cli_entry cli_exits[] = {
#define EXIT(id, status, help) {#id, status, help},
#include "cli.def"
    {0}};

const struct cli_entry cli_examples[] = {
#define EXAMPLE(id, line, help) {#id, line, help},
#include "cli.def"
    {0}};

static const struct cli_entry cli_hints[] = {
#define HINT(id, word, name) {#id, word, name},
#include "cli.def"
    {0}};

static const struct cli_word cap_policies[] = {
#define CAP_POLICY(id, name, meaning) [VGPU_CAP_##id] = {name, meaning},
#include "policies.def"
};

static const struct cli_word turn_policies[] = {
#define TURN_POLICY(id, name, meaning) [1 + VGPU_TURN_##id] = {name, meaning},
#include "policies.def"
};

static const struct cli_word guard_modes[] = {
#define GUARD_MODE(id, name, meaning) [GUARD_##id] = {name, meaning},
#include "policies.def"
};

const struct cli_word *cli_words(enum cli_type type, unsigned *ret_count)
{
#define WORDS(array) (*ret_count = sizeof(array) / sizeof((array)[0]), (array))
    return type == CLI_CAP_POLICY    ? WORDS(cap_policies)
           : type == CLI_TURN_POLICY ? WORDS(turn_policies)
           : type == CLI_GUARD_MODE  ? WORDS(guard_modes)
                                     : (*ret_count = 0, NULL);
#undef WORDS
}

const char *cli_word_name(enum cli_type type, uint64_t value)
{
    unsigned count;
    const struct cli_word *words = cli_words(type, &count);

    return value < count ? words[value].name : "?";
}

int cli_word_index(enum cli_type type, const char *name)
{
    unsigned count;
    const struct cli_word *words = cli_words(type, &count);

    for (unsigned i = 0; i < count; i++)
        if (words[i].meaning && !strcmp(words[i].name, name))
            return (int)i;
    return -1;
}

const char *cli_size_text(uint64_t bytes, char buffer[SIZE_TEXT_BYTES])
{
    char *tenths = strstr(format_bytes(bytes, buffer, SIZE_TEXT_BYTES), ".0 ");

    if (tenths)
        memmove(tenths, tenths + 2, strlen(tenths + 2) + 1);
    return buffer;
}

const char *cli_range(const struct cli_option *option, char *buffer, size_t size)
{
    char least[SIZE_TEXT_BYTES];

    if (!option->min && !option->max)
        *buffer = '\0';
    else if (!option->max)
        snprintf(buffer, size, "%s or more", cli_size_text(option->min, least));
    else
        snprintf(buffer, size, "%" PRIu64 " to %" PRIu64 "%s%s", option->min, option->max,
                 option->unit ? " " : "", option->unit ? option->unit : "");
    return buffer;
}

const char *cli_help(const struct cli_option *option, char *buffer, size_t size)
{
    unsigned count;
    const struct cli_word *words = cli_words(option->type, &count);
    char range[CLI_HELP_BYTES];
    FILE *out = fmemopen(buffer, size, "w");

    if (!out)
        return option->help;
    fputs(option->help, out);
    for (unsigned i = 0; i < count; i++)
        if (words[i].meaning)
            fprintf(out, "; `%s`: %s", words[i].name, words[i].meaning);
    if (*cli_range(option, range, sizeof(range)))
        fprintf(out, "; %s", range);
    if (option->initial)
        fprintf(out, ". Default: %s", option->initial);
    fclose(out);
    return buffer;
}

const struct cli_command *cli_find_command(const char *name)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, name))
            return c;
    return NULL;
}

const struct cli_option *cli_option_of(const char *command, size_t offset)
{
    const struct cli_option *option = cli_options;

    while (strcmp(option->command, command) != 0 || option->offset != offset)
        option++;
    return option;
}

bool cli_argument_optional(const struct cli_option *option)
{
    return option->argument[0] == '[';
}

const char *cli_argument_gap(const struct cli_option *option)
{
    return *option->argument && !cli_argument_optional(option) ? " " : "";
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

/* The edit distance of two words, with swaps of neighbours; WORD_MAX for longer words. */
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

/* A name is near if less than half of the word differs. A name that the word begins is nearest. */
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

    for (const struct cli_command *c = cli_commands + 1; c->name; c++)
        consider(&nearest, word, c->name);
    return nearest.name;
}

static const char *nearest_option(const char *command, const char *word)
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

static const struct cli_option *find_letter(const char *command, char letter)
{
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command) && o->letter == letter)
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
        nearest = nearest_option(command, name + strspn(name, "-"));
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

    if (word[1] == '-')
        option = find_option(parse->command, word + 2, length - 2);
    else if (!word[2])
        option = find_letter(parse->command, word[1]);
    if (!option)
        return unknown_option(parse->command, word, length);
    if (!*option->argument && equals) {
        message_error("%s: --%s takes no value, but got \"%s\"", parse->command, option->name,
                      equals + 1);
        return ITEM_ERROR;
    }
    if (cli_argument_optional(option)) {
        *ret_value = equals ? equals + 1 : NULL;
    } else if (*option->argument) {
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

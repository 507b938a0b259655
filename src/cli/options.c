#include "cli/options.h"

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Begins the message of a refused value. */
#define VALUE_FORMAT           "%s: --%s \"%.64s\": "
#define VALUE_OF(option, text) (option)->command, (option)->name, text

static bool parse_flag(const struct cli_option *option, const char *text, void *field)
{
    (void)option;
    (void)text;
    *(bool *)field = true;
    return true;
}

static bool parse_text(const struct cli_option *option, const char *text, void *field)
{
    (void)option;
    *(const char **)field = text;
    return true;
}

static bool parse_name(const struct cli_option *option, const char *text, void *field)
{
    char range[CLI_HELP_BYTES];

    if (parse_name_valid(text))
        return parse_text(option, text, field);
    message_error(VALUE_FORMAT "a name has %s", VALUE_OF(option, text),
                  cli_range(option, range, sizeof(range)));
    return false;
}

static bool parse_number(const struct cli_option *option, const char *text, void *field)
{
    struct options_number *number = field;

    number->text = text ? text : option->initial;
    if (parse_count(number->text, option->min, option->max, &number->value) == 0)
        return true;
    message_error(VALUE_FORMAT "use a whole number%s%s from %" PRIu64 " to %" PRIu64,
                  VALUE_OF(option, text), option->unit ? " of " : "",
                  option->unit ? option->unit : "", option->min, option->max);
    return false;
}

/* Checks the row's least size. A user who types "8" for eight bytes hardly means it. */
static bool size_enough(const struct cli_option *option, const char *text, uint64_t bytes)
{
    const char *number = strrchr(text, ':') ? strrchr(text, ':') + 1 : text;
    char least[SIZE_TEXT_BYTES];

    if (bytes >= option->min)
        return true;
    cli_size_text(option->min, least);
    if (number[strspn(number, "0123456789.")] == '\0' && strlen(number) <= 4)
        message_error(VALUE_FORMAT "less than %s; did you mean %sG?", VALUE_OF(option, text), least,
                      text);
    else
        message_error(VALUE_FORMAT "less than %s, the least that is accepted",
                      VALUE_OF(option, text), least);
    return false;
}

static bool parse_size(const struct cli_option *option, const char *text, void *field)
{
    struct options_number *number = field;
    int rc = parse_bytes(text, &number->value);

    number->text = text;
    if (rc == 0)
        return size_enough(option, text, number->value);
    message_error(VALUE_FORMAT "%s", VALUE_OF(option, text),
                  strchr(text, '%') && rc == -PARSE_FORM
                      ? "takes no percentage; use a size, such as 8G or 512M"
                      : parse_fault_text(rc));
    return false;
}

static bool parse_quotas(const struct cli_option *option, const char *text, void *field)
{
    struct options_list *quotas = field;
    int rc = parse_quota_list(text, &quotas->list);

    quotas->text = text;
    for (unsigned i = 0; rc == 0 && i < QUOTA_DEVICES_MAX; i++) {
        struct quota quota = quota_list_device(&quotas->list, i);

        if (quota.bytes && !size_enough(option, text, quota.bytes))
            return false;
    }
    if (rc < 0)
        message_error(VALUE_FORMAT "%s", VALUE_OF(option, text), parse_fault_text(rc));
    return rc == 0;
}

static bool parse_percents(const struct cli_option *option, const char *text, void *field)
{
    struct options_list *percents = field;
    int rc = parse_percent_list(text, &percents->list);

    percents->text = text;
    for (unsigned i = 0; rc == 0 && i < QUOTA_DEVICES_MAX; i++) {
        uint32_t percent = quota_list_device(&percents->list, i).percent;

        if (percent && (percent < option->min || percent > option->max))
            rc = -PARSE_PERCENT;
    }
    if (rc < 0)
        message_error(VALUE_FORMAT "%s", VALUE_OF(option, text), parse_fault_text(rc));
    return rc == 0;
}

/* Lists the words: "fair, priority or rr", or with an optional argument "--x, --x=a or --x=b". */
static void say_words(const struct cli_option *option, const char *text)
{
    bool optional = cli_argument_optional(option);
    const char *divider = optional ? ", " : "";
    char list[512] = "", before[64] = "";
    unsigned count, last = 0;
    const struct cli_word *words = cli_words(option->type, &count);
    size_t used = 0;

    if (optional) {
        snprintf(before, sizeof(before), "--%s=", option->name);
        used = (size_t)snprintf(list, sizeof(list), "--%s", option->name);
    }
    for (unsigned i = 0; i < count; i++)
        last = words[i].meaning ? i : last;
    for (unsigned i = 0; i < count; i++) {
        if (!words[i].meaning)
            continue;
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s%s",
                                 i == last && used ? " or " : divider, before, words[i].name);
        divider = ", ";
    }
    message_error("%s: --%s%s%.64s%s: there is no such word; use %s", option->command, option->name,
                  optional ? "=" : " \"", text, optional ? "" : "\"", list);
}

static bool parse_word(const struct cli_option *option, const char *text, void *field)
{
    struct options_number *word = field;
    int index = cli_word_index(option->type, text);

    if (index < 0) {
        say_words(option, text);
        return false;
    }
    *word = (struct options_number){text, (uint64_t)index};
    return true;
}

static bool parse_guard_mode(const struct cli_option *option, const char *text, void *field)
{
    struct options_number word = {.value = GUARD_ON};

    if (text && !parse_word(option, text, &word))
        return false;
    *(enum guard_mode *)field = (enum guard_mode)word.value;
    return true;
}

/* Sets the variable in this process's environment, which the program inherits. */
static bool parse_variable(const struct cli_option *option, const char *text, void *field)
{
    return run_env_set(text) && parse_flag(option, text, field);
}

static bool (*const parsers[])(const struct cli_option *option, const char *text, void *field) = {
#define X(type, c_type, parser) [CLI_##type] = parser,
    CLI_TYPE_LIST(X)
#undef X
};

static const struct cli_operand *operand_of(const char *command)
{
    for (const struct cli_operand *o = cli_operands; o->command; o++)
        if (!strcmp(o->command, command))
            return o;
    return NULL;
}

/* The most operands that the command's row allows. */
static unsigned operands_most(const struct cli_operand *operand)
{
    return !operand ? 0 : strstr(operand->name, "...") ? UINT_MAX : 1;
}

bool options_parse(const char *command, char **argv, void *options, char ***ret_operands,
                   int *ret_status)
{
    const struct cli_operand *operand = operand_of(command);
    struct cli_parse parse = {.command = command,
                              .argv = argv + 1,
                              .options_end_at_operand = (operand && operand->type == CLI_COMMAND) ||
                                                        !strcmp(command, "vgpu")};
    const struct cli_option *option = NULL;
    const char *text = NULL;
    unsigned count = 0;
    enum cli_item item;

    *ret_operands = argv + 1;
    *ret_status = STATUS_USAGE;
    while ((item = cli_next(&parse, &option, &text)) != ITEM_END) {
        if (item == ITEM_ERROR)
            return false;
        if (item == ITEM_OPERAND && parse.options_end_at_operand) {
            *ret_operands = parse.argv;
            return true;
        }
        if (item == ITEM_OPTION && option->type == CLI_HELP) {
            help_print(stdout, command);
            *ret_status = command_finish_output();
            return false;
        }
        if (item == ITEM_OPTION) {
            if (!parsers[option->type](option, text, (char *)options + option->offset))
                return false;
        } else if (count == operands_most(operand)) {
            message_error("%s: \"%s\" is one argument too many; `vgpu help %s` shows what it takes",
                          command, text, command);
            return false;
        } else {
            argv[1 + count++] = (char *)text;
        }
    }
    argv[1 + count] = NULL;
    *ret_operands = argv + 1;
    return true;
}

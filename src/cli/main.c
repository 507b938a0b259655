#include "cli/commands.h"

#include "cli/doctor.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(char **argv);
} commands[] = {{"run", command_run},       {"ps", command_ps},
                {"pause", command_pause},   {"resume", command_resume},
                {"doctor", command_doctor}, {"version", command_version},
                {"help", command_help}};

int command_finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    if (errno != EPIPE)
        message_error("cannot write the output: %s", strerror(errno));
    return STATUS_FAILED;
}

bool command_options(char **argv, bool *ret_json, const char **ret_operand, int *ret_status)
{
    struct cli_parse parse = {.command = argv[0], .argv = argv + 1};
    const char *operand = NULL, *value = NULL;
    const struct cli_option *option = NULL;
    bool json = false;
    enum cli_item item;

    while ((item = cli_next(&parse, &option, &value)) != ITEM_END) {
        if (item == ITEM_ERROR) {
            *ret_status = STATUS_USAGE;
            return false;
        }
        if (item == ITEM_OPTION && option->opt == OPT_HELP) {
            help_print(stdout, argv[0]);
            *ret_status = command_finish_output();
            return false;
        }
        if (item == ITEM_OPTION) {
            json = true;
        } else if (ret_operand && !operand) {
            operand = value;
        } else {
            message_error("%s: \"%s\" is one argument too many; `vgpu help %s` shows what it takes",
                          argv[0], value, argv[0]);
            *ret_status = STATUS_USAGE;
            return false;
        }
    }
    if (ret_json)
        *ret_json = json;
    if (ret_operand)
        *ret_operand = operand;
    return true;
}

int command_version(char **argv)
{
    int status;

    if (!command_options(argv, NULL, NULL, &status))
        return status;
    printf("vgpu %s\n", VGPU_VERSION);
    return command_finish_output();
}

static int unknown_command(const char *word)
{
    const char *nearest = cli_nearest_command(word);

    message_error("there is no command \"%s\"%s%s%s; `vgpu help` lists them", word,
                  nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    return STATUS_USAGE;
}

int command_help(char **argv)
{
    const char *command = NULL;
    int status;

    if (!command_options(argv, NULL, &command, &status))
        return status;
    if (command && !cli_find_command(command))
        return unknown_command(command);
    help_print(stdout, command ? command : "vgpu");
    return command_finish_output();
}

int main(int argc, char **argv)
{
    struct cli_parse parse = {
        .command = "vgpu", .argv = argv + (argc > 0), .options_end_at_operand = true};
    const struct cli_option *option = NULL;
    const char *word = NULL;

    switch (cli_next(&parse, &option, &word)) {
    case ITEM_END:
        help_print_short(stderr);
        return STATUS_USAGE;
    case ITEM_ERROR:
        return STATUS_USAGE;
    case ITEM_OPTION:
        return option->opt == OPT_VERSION ? command_version((char *[]){"version", NULL})
                                          : command_help((char *[]){"help", NULL});
    case ITEM_OPERAND:
        break;
    }
    if (!strcmp(word, DOCTOR_PROBE) && argc == 3)
        return doctor_probe(argv[2]);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (!strcmp(commands[i].name, word))
            return commands[i].run(parse.argv);
    return unknown_command(word);
}

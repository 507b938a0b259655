#include "cli/commands.h"

#include "cli/doctor.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* In the order of cli_commands. */
static int (*const functions[])(char **argv) = {
#define COMMAND(id, page, arguments, summary) command_##id,
#include "cli.def"
};

static int print_version(void)
{
    printf("vgpu %s\n", VGPU_VERSION);
    return command_finish_output();
}

int command_version(char **argv)
{
    char **operands;
    int status;

    return options_parse("version", argv, NULL, &operands, &status) ? print_version() : status;
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
    char **operands;
    int status;

    if (!options_parse("help", argv, NULL, &operands, &status))
        return status;
    if (*operands && !cli_find_command(*operands))
        return unknown_command(*operands);
    help_print(stdout, *operands ? *operands : "vgpu");
    return command_finish_output();
}

int command_vgpu(char **argv)
{
    struct vgpu_options options = {.version = false};
    char **words;
    int status;

    if (!options_parse("vgpu", argv, &options, &words, &status))
        return status;
    if (options.version)
        return print_version();
    if (!*words) {
        help_print_short(stderr);
        return STATUS_USAGE;
    }
    if (!strcmp(words[0], DOCTOR_PROBE) && words[1] && !words[2])
        return doctor_probe(words[1]);
    for (unsigned i = 1; cli_commands[i].name; i++)
        if (!strcmp(cli_commands[i].name, words[0]))
            return functions[i](words);
    return unknown_command(words[0]);
}

int main(int argc, char **argv)
{
    return argc > 0 ? command_vgpu(argv) : STATUS_USAGE;
}

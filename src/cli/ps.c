#include "cli/ps.h"

#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A missing name is an error, as it is for other commands. */
static bool all_found(const struct ps_list *list)
{
    bool all = true;

    for (char **name = list->names; name && *name; name++) {
        bool found = false;

        for (unsigned i = 0; i < list->count && !found; i++)
            found = !strcmp(list->instances[i]->name, *name);
        if (!found)
            message_error("ps: no instance %s is running", *name);
        all = all && found;
    }
    return all;
}

static void print_names(const struct ps_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        printf("%s\n", list->instances[i]->name);
}

static bool print(const struct ps_options *options, struct ps_list *list)
{
    if (options->json)
        return ps_print_json(list);
    if (!options->quiet)
        return ps_print_table(list);
    print_names(list);
    return true;
}

static int show(const struct ps_options *options, struct ps_list *list)
{
    bool printed, failed;
    int status;

    ps_collect(list);
    printed = print(options, list);
    failed = list->failed || !all_found(list);
    ps_done(list);
    if (!printed) {
        message_error("ps: out of memory");
        return STATUS_FAILED;
    }
    status = command_finish_output();
    return failed ? STATUS_FAILED : status;
}

int command_ps(char **argv)
{
    struct ps_options options = {.json = false};
    struct ps_list list = {.count = 0};
    char **names;
    int status;

    if (!options_parse("ps", argv, &options, &names, &status))
        return status;
    list.heads = !options.no_header;
    list.names = *names ? names : NULL;
    do {
        if (options.watch.value && !options.json && isatty(STDOUT_FILENO))
            printf("\033[H\033[2J");
        status = show(&options, &list);
    } while (options.watch.value && !ferror(stdout) && sleep((unsigned)options.watch.value) == 0);
    return status;
}

#include "cli/help.h"

#include "cli/table.h"

#include <string.h>

#define WIDTH       100
#define HELP_COLUMN 24

/* Prints `text` between the columns `indent` and WIDTH; the cursor stands at column `at`. Backquotes are left out. */
static void print_wrapped(FILE *out, const char *text, int at, int indent)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        int shown = 0;

        for (size_t i = 0; i < length; i++)
            shown += text[i] != '`';
        if (at > indent && at + 1 + shown > WIDTH) {
            fprintf(out, "\n");
            at = 0;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        for (; at < indent; at++)
            fputc(' ', out);
        for (size_t i = 0; i < length; i++)
            if (text[i] != '`')
                fputc(text[i], out);
        at += shown;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_entry(FILE *out, const char *term, const char *help)
{
    int at = fprintf(out, "  %s", term);

    if (at > HELP_COLUMN - 2) {
        fputc('\n', out);
        at = 0;
    }
    print_wrapped(out, help, at, HELP_COLUMN);
}

static void print_entries(FILE *out, const char *title, const struct cli_entry *entries, const char *command)
{
    bool any = false;

    for (const struct cli_entry *e = entries; e->command; e++) {
        if (strcmp(e->command, command))
            continue;
        if (!any)
            fprintf(out, "\n%s:\n", title);
        any = true;
        print_entry(out, e->term, e->help);
    }
}

static void print_options(FILE *out, const char *command)
{
    fprintf(out, "\nOptions:\n");
    for (const struct cli_option *o = cli_options; o->command; o++) {
        char term[64];

        if (strcmp(o->command, command))
            continue;
        snprintf(term, sizeof(term), "--%s%s%s", o->name, cli_argument_gap(o), o->argument ? o->argument : "");
        print_entry(out, term, o->help);
    }
}

static void print_operands(FILE *out, const char *command)
{
    bool any = false;

    for (const struct cli_operand *o = cli_operands; o->command; o++) {
        if (strcmp(o->command, command))
            continue;
        if (!any)
            fprintf(out, "\nArguments:\n");
        any = true;
        print_entry(out, o->name, o->help);
    }
}

void help_print(FILE *out, const char *command)
{
    const struct cli_command *c = cli_find_command(command);
    bool top = !strcmp(command, "vgpu");

    if (!c)
        return;
    fprintf(out, "Usage: vgpu%s%s%s%s\n", top ? "" : " ", top ? "" : c->name, *c->arguments ? " " : "", c->arguments);
    for (const struct cli_text *t = cli_texts; t->command; t++)
        if (!strcmp(t->command, command)) {
            fputc('\n', out);
            print_wrapped(out, t->text, 0, 0);
        }
    if (top) {
        fprintf(out, "\nCommands:\n");
        for (c = cli_commands; c->name; c++)
            if (strcmp(c->name, "vgpu"))
                print_entry(out, c->name, c->summary);
    }
    print_operands(out, command);
    print_options(out, command);
    print_entries(out, "Exit status", cli_exits, command);
    print_entries(out, "Examples", cli_examples, command);
    if (top)
        fprintf(out, "\n`vgpu help COMMAND` explains a command; `man vgpu-run` and `man 7 libvgpu` have the rest.\n");
}

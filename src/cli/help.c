#include "cli/help.h"

#include "cli/table.h"
#include "cli/terminal.h"

#include <string.h>

#define HELP_COLUMN        25
#define HELP_COLUMN_NARROW 8 /* on a narrow terminal; each help begins a line of its own */
#define NARROW             72

static void print_text(FILE *out, const char *text, int at, int indent)
{
    terminal_wrap(out, text, '`', at, indent, terminal_text_columns(out));
}

static void print_title(FILE *out, const char *title)
{
    fprintf(out, "\n%s%s:%s\n", terminal_style(out, TERMINAL_BOLD), title,
            terminal_style(out, TERMINAL_PLAIN));
}

static void print_entry(FILE *out, const char *term, const char *help)
{
    int column = terminal_columns(out) < NARROW ? HELP_COLUMN_NARROW : HELP_COLUMN,
        at = 2 + (int)strlen(term);

    fprintf(out, "  %s%s%s", terminal_style(out, TERMINAL_BOLD), term,
            terminal_style(out, TERMINAL_PLAIN));
    if (at > column - 2) {
        fputc('\n', out);
        at = 0;
    }
    print_text(out, help, at, column);
}

static void print_entries(FILE *out, const char *title, const struct cli_entry *entries,
                          const char *command)
{
    bool any = false;

    for (const struct cli_entry *e = entries; e->command; e++) {
        if (strcmp(e->command, command))
            continue;
        if (!any)
            print_title(out, title);
        any = true;
        print_entry(out, e->term, e->help);
    }
}

static void print_options(FILE *out, const char *command)
{
    print_title(out, "Options");
    for (const struct cli_option *o = cli_options; o->command; o++) {
        char term[64], letter[] = {'-', o->letter, ',', ' ', '\0'}, help[CLI_HELP_BYTES];

        if (strcmp(o->command, command))
            continue;
        snprintf(term, sizeof(term), "%s--%s%s%s", o->letter ? letter : "", o->name,
                 cli_argument_gap(o), o->argument);
        print_entry(out, term, cli_help(o, help, sizeof(help)));
    }
}

static void print_operands(FILE *out, const char *command)
{
    bool any = false;

    for (const struct cli_operand *o = cli_operands; o->command; o++) {
        if (strcmp(o->command, command))
            continue;
        if (!any)
            print_title(out, "Arguments");
        any = true;
        print_entry(out, o->name, o->help);
    }
}

static void print_texts(FILE *out, const char *command)
{
    for (const struct cli_text *t = cli_texts; t->command; t++)
        if (!strcmp(t->command, command) && !t->manual) {
            fputc('\n', out);
            print_text(out, t->text, 0, 0);
        }
}

static void print_commands(FILE *out)
{
    print_title(out, "Commands");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++)
        print_entry(out, c->name, c->summary);
}

void help_print(FILE *out, const char *command)
{
    const struct cli_command *c = cli_find_command(command);
    bool top = !strcmp(command, "vgpu");
    char more[128];

    if (!c)
        return;
    fprintf(out, "Usage: vgpu%s%s%s%s\n", top ? "" : " ", top ? "" : c->name,
            *c->arguments ? " " : "", c->arguments);
    if (top)
        print_commands(out);
    print_operands(out, command);
    print_options(out, command);
    print_entries(out, "Exit status", cli_exits, command);
    print_entries(out, "Examples", cli_examples, command);
    print_texts(out, command);
    if (!c->page)
        return;
    snprintf(more, sizeof(more), "%s`man vgpu%s%s` and `man 7 libvgpu` have the rest.",
             top ? "`vgpu help COMMAND` explains a command. " : "", top ? "" : "-",
             top ? "" : command);
    fputc('\n', out);
    terminal_wrap(out, more, '\0', 0, 0, terminal_text_columns(out));
}

void help_print_short(FILE *out)
{
    const struct cli_command *c = cli_find_command("vgpu");

    fprintf(out, "Usage: vgpu %s\n", c->arguments);
    print_commands(out);
    fputc('\n', out);
    terminal_wrap(out,
                  "`vgpu run --mem 8G -- COMMAND` starts a program; `vgpu help` explains, `vgpu "
                  "help run` more.",
                  '\0', 0, 0, terminal_text_columns(out));
}

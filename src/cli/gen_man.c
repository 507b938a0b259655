#include "cli/gen.h"

#include "cli/table.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Writes the text of a paragraph, with bold type for backquotes. */
static void put_text(FILE *out, const char *text)
{
    int literal = 0;

    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '`')
            fputs((literal ^= 1) ? "\\fB" : "\\fR", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

static void put_line(FILE *out, const char *text)
{
    put_text(out, text);
    fputc('\n', out);
}

static void put_upper(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(toupper((unsigned char)*text), out);
}

/* Writes " NAME" or "[=NAME]" with the name in italics. */
static void put_argument(FILE *out, const struct cli_option *option)
{
    bool optional = cli_argument_optional(option);
    const char *name;
    int length = cli_argument_name(option, &name);

    fprintf(out, "%s\\fI%.*s\\fR%s", optional ? "[=" : " ", length, name, optional ? "]" : "");
}

static void put_options(FILE *out, const char *command)
{
    char help[CLI_HELP_BYTES];

    fprintf(out, ".SH OPTIONS\n");
    for (const struct cli_option *o = cli_options; o->command; o++) {
        if (strcmp(o->command, command))
            continue;
        fprintf(out, ".TP\n\\fB");
        if (o->letter)
            fprintf(out, "\\-%c\\fR, \\fB", o->letter);
        fprintf(out, "\\-\\-");
        put_text(out, o->name);
        fprintf(out, "\\fR");
        if (*o->argument)
            put_argument(out, o);
        fputc('\n', out);
        put_line(out, cli_help(o, help, sizeof(help)));
    }
    for (const struct cli_operand *o = cli_operands; o->command; o++)
        if (!strcmp(o->command, command)) {
            fprintf(out, ".TP\n\\fI%s\\fR\n", o->name);
            put_line(out, o->help);
        }
}

static void put_entries(FILE *out, const char *title, const struct cli_entry *entries,
                        const char *command)
{
    int any = 0;

    for (const struct cli_entry *e = entries; e->command; e++) {
        if (strcmp(e->command, command))
            continue;
        if (!any++)
            fprintf(out, ".SH %s\n", title);
        fprintf(out, ".TP\n\\fB");
        put_text(out, e->term);
        fprintf(out, "\\fR\n");
        put_line(out, e->help);
    }
}

static void put_commands(FILE *out)
{
    fprintf(out, ".SH COMMANDS\n");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++) {
        fprintf(out, ".TP\n\\fB%s\\fR ", c->name);
        put_line(out, c->arguments);
        put_line(out, c->summary);
    }
}

/* The pages of the other commands. */
static void put_see_also(FILE *out, const char *command)
{
    fprintf(out, ".SH SEE ALSO\n");
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        bool top = c == cli_commands;

        if (c->page && strcmp(c->name, command))
            fprintf(out, ".BR vgpu%s%s (1),\n", top ? "" : "\\-", top ? "" : c->name);
    }
    fprintf(out, ".BR libvgpu (7)\n");
}

void gen_man(FILE *out, const char *command)
{
    const struct cli_command *c = cli_find_command(command);
    int top = !strcmp(command, "vgpu");
    const char *dash = top ? "" : "\\-", *name = top ? "" : command;

    fprintf(out, ".\\\" Made from spec/cli.def by gen_docs.\n.TH VGPU%s", top ? "" : "\\-");
    put_upper(out, name);
    fprintf(out, " 1 \"\" \"vgpu %s\" \"vgpu manual\"\n", VGPU_VERSION);
    fprintf(out, ".SH NAME\nvgpu%s%s \\- ", dash, name);
    put_line(out, c->summary);
    fprintf(out, ".SH SYNOPSIS\n\\fBvgpu%s%s\\fR ", top ? "" : " ", name);
    put_line(out, c->arguments);
    fprintf(out, ".SH DESCRIPTION\n");
    for (const struct cli_text *t = cli_texts; t->command; t++)
        if (!strcmp(t->command, command)) {
            fprintf(out, ".PP\n");
            put_line(out, t->text);
        }
    if (top)
        put_commands(out);
    put_options(out, command);
    put_entries(out, "EXIT STATUS", cli_exits, command);
    put_entries(out, "EXAMPLES", cli_examples, command);
    put_see_also(out, command);
}

static void put_environment(FILE *out)
{
    char range[GEN_RANGE_BYTES];

    fprintf(out, ".SH ENVIRONMENT\n");
    for (enum setting s = 0; s < SETTINGS; s++) {
        const struct setting_row *row = &setting_rows[s];

        fprintf(out, ".TP\n\\fB");
        put_text(out, row->env);
        fprintf(out, "\\fR (%s)\n", row->type);
        put_line(out, gen_setting_helps[s]);
        fprintf(out, "Accepted: ");
        put_text(out, gen_setting_range(s, range, sizeof(range)));
        fprintf(out, ".\n");
        if (row->initial) {
            fprintf(out, "Default: ");
            put_text(out, row->initial);
            fprintf(out, ".\n");
        }
    }
}

int gen_man_library(FILE *out, const char *template_file)
{
    FILE *in = fopen(template_file, "r");
    char line[1024];

    if (!in)
        return -errno;
    while (fgets(line, sizeof(line), in)) {
        char *version = strstr(line, "@VERSION@");

        if (!strcmp(line, "@ENVIRONMENT@\n"))
            put_environment(out);
        else if (version)
            fprintf(out, "%.*s%s%s", (int)(version - line), line, VGPU_VERSION,
                    version + strlen("@VERSION@"));
        else
            fputs(line, out);
    }
    fclose(in);
    return 0;
}

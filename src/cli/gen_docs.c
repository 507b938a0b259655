/* gen_docs FOLDER TEMPLATE: writes vgpu.1 ..., libvgpu.7, vgpu.bash, _vgpu, vgpu.fish and cli.md to
 * the folder. */
#include "cli/gen.h"

#include "cli/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const gen_setting_helps[SETTINGS] = {
#define SETTING(id, env, type, help, ...) help,
#include "config.def"
#undef SETTING
};

static FILE *open_output(const char *folder, const char *name)
{
    char path[4096];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    out = fopen(path, "w");
    if (!out) {
        fprintf(stderr, "gen_docs: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return out;
}

static void close_output(FILE *out)
{
    if (ferror(out) || fclose(out)) {
        fprintf(stderr, "gen_docs: cannot write: %s\n", strerror(errno));
        exit(1);
    }
}

/* Writes text as Markdown, which has backquotes too, and escapes other markup outside of them. */
static void put_markdown(FILE *out, const char *text)
{
    int literal = 0;

    for (; *text; text++) {
        literal ^= *text == '`';
        if (!literal && strchr("<>*_|", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void put_rows(FILE *out, const char *title, const struct cli_entry *entries,
                     const char *command)
{
    int any = 0;

    for (const struct cli_entry *e = entries; e->command; e++) {
        if (strcmp(e->command, command))
            continue;
        if (!any++)
            fprintf(out, "\n%s:\n\n", title);
        fprintf(out, "- `%s`: ", e->term);
        put_markdown(out, e->help);
        fputc('\n', out);
    }
}

static void put_command(FILE *out, const struct cli_command *command)
{
    int top = !strcmp(command->name, "vgpu");
    char help[CLI_HELP_BYTES];

    fprintf(out, "\n## vgpu%s%s\n\n", top ? "" : " ", top ? "" : command->name);
    fprintf(out, "    vgpu%s%s%s%s\n", top ? "" : " ", top ? "" : command->name,
            *command->arguments ? " " : "", command->arguments);
    for (const struct cli_text *t = cli_texts; t->command; t++)
        if (!strcmp(t->command, command->name)) {
            fputc('\n', out);
            put_markdown(out, t->text);
            fputc('\n', out);
        }
    fprintf(out, "\n| option | |\n|---|---|\n");
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command->name)) {
            fprintf(out, "| `--%s%s%s` | ", o->name, cli_argument_gap(o), o->argument);
            put_markdown(out, cli_help(o, help, sizeof(help)));
            fprintf(out, " |\n");
        }
    put_rows(out, "Exit status", cli_exits, command->name);
    put_rows(out, "Examples", cli_examples, command->name);
}

static void write_markdown(FILE *out)
{
    char range[GEN_RANGE_BYTES];

    fprintf(out, "# The vgpu command\n\nMade from `spec/cli.def` and `spec/config.def` by the "
                 "build; change those.\n");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        put_command(out, c);
    fprintf(out, "\n## Environment\n\n| variable | value | default | |\n|---|---|---|---|\n");
    for (enum setting s = 0; s < SETTINGS; s++) {
        const struct setting_row *row = &setting_rows[s];

        fprintf(out, "| `%s` | %s: ", row->env, row->type);
        put_markdown(out, gen_setting_range(s, range, sizeof(range)));
        fprintf(out, " | ");
        put_markdown(out, row->initial ? row->initial : "");
        fprintf(out, " | ");
        put_markdown(out, gen_setting_helps[s]);
        fprintf(out, " |\n");
    }
    fprintf(out, "\nThe simulator's `SIMGPU_` variables are described in "
                 "[sim/README.md](../sim/README.md).\n");
}

static void write_one(const char *folder, const char *name, void (*generate)(FILE *))
{
    FILE *out = open_output(folder, name);

    generate(out);
    close_output(out);
}

/* vgpu.1, vgpu-run.1 ... */
static void write_man(const char *folder, const char *command)
{
    bool top = command == cli_commands->name;
    char name[64];
    FILE *out;

    snprintf(name, sizeof(name), "vgpu%s%s.1", top ? "" : "-", top ? "" : command);
    out = open_output(folder, name);
    gen_man(out, command);
    close_output(out);
}

int main(int argc, char **argv)
{
    FILE *out;
    int error;

    if (argc != 3) {
        fprintf(stderr, "usage: gen_docs FOLDER TEMPLATE\n");
        return 2;
    }
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (c->page)
            write_man(argv[1], c->name);
    out = open_output(argv[1], "libvgpu.7");
    error = gen_man_library(out, argv[2]);
    if (error) {
        fprintf(stderr, "gen_docs: %s: %s\n", argv[2], strerror(-error));
        return 1;
    }
    close_output(out);
    write_one(argv[1], "vgpu.bash", gen_bash);
    write_one(argv[1], "_vgpu", gen_zsh);
    write_one(argv[1], "vgpu.fish", gen_fish);
    write_one(argv[1], "cli.md", write_markdown);
    return 0;
}

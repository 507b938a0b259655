#include "cli/gen.h"

#include "cli/table.h"

#include <string.h>

/* Shell code that lists the names of running instances, and the devices. */
#define LIST_INSTANCES "vgpu ps --json 2>/dev/null | sed -n 's/^ *\"name\": \"\\(.*\\)\",$/\\1/p'"
#define LIST_GPUS                                                                                  \
    "echo auto; echo all; command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi "                    \
    "--query-gpu=index,uuid "                                                                      \
    "--format=csv,noheader "                                                                       \
    "2>/dev/null | tr -d ' ' | tr , '\\n'"

/* The words for an option, divided by blanks: all words, or examples. NULL: neither. */
static const char *words_of(const struct cli_option *option)
{
    static char list[256];
    size_t used = 0;
    unsigned count;
    const struct cli_word *words = cli_words(option->type, &count);

    for (unsigned i = 0; i < count; i++)
        if (words[i].meaning)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? " " : "",
                                     words[i].name);
    return used ? list : option->examples;
}

static const struct cli_operand *operand_of(const char *command)
{
    for (const struct cli_operand *o = cli_operands; o->command; o++)
        if (!strcmp(o->command, command))
            return o;
    return NULL;
}

/* The end of the first clause of a help text; a menu has no room for more. */
static const char *clause_end(const char *text)
{
    while (*text && *text != ';' && !(*text == '.' && text[1] == ' '))
        text++;
    return text;
}

/* Writes text for single quotes of a shell, without backquotes. */
static void put_quoted(FILE *out, const char *text)
{
    for (const char *end = clause_end(text); text < end; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (*text != '`')
            fputc(*text, out);
}

static void put_options(FILE *out, const char *command)
{
    int any = 0;

    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command))
            fprintf(out, "%s--%s", any++ ? " " : "", o->name);
}

static void put_subcommands(FILE *out)
{
    int any = 0;

    for (const struct cli_command *c = cli_commands + 1; c->name; c++)
        fprintf(out, "%s%s", any++ ? " " : "", c->name);
}

static void put_bash_value(FILE *out, enum cli_type type)
{
    switch (type) {
    case CLI_FILE:
        fprintf(out, "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))");
        break;
    case CLI_INSTANCE:
        fprintf(out, "COMPREPLY=($(compgen -W \"$(" LIST_INSTANCES ")\" -- \"$cur\"))");
        break;
    case CLI_GPUS:
        fprintf(out, "COMPREPLY=($(compgen -W \"$(" LIST_GPUS ")\" -- \"$cur\"))");
        break;
    case CLI_COMMAND:
    case CLI_PROGRAM:
        fprintf(out, "_vgpu_command \"$i\"");
        break;
    case CLI_SUBCOMMAND:
        fprintf(out, "COMPREPLY=($(compgen -W \"");
        put_subcommands(out);
        fprintf(out, "\" -- \"$cur\"))");
        break;
    default:
        fprintf(out, "COMPREPLY=()");
        break;
    }
}

/* Bash divides words at "=", so an option with its value is one word or three. The loop then stands
 * at the value, word i. */
static void put_bash_option(FILE *out, const struct cli_option *option)
{
    fprintf(out, "            --%s)\n                ", option->name);
    if (cli_argument_optional(option))
        fprintf(out, "if [[ ${COMP_WORDS[i + 1]} == = ]] && (((i += 2) >= COMP_CWORD)); then\n");
    else
        fprintf(out, "[[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))\n                if ((++i >= "
                     "COMP_CWORD)); then\n");
    fprintf(out, "                    cur=${cur#=}\n                    ");
    if (words_of(option))
        fprintf(out, "COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))", words_of(option));
    else
        put_bash_value(out, option->type);
    fprintf(out, "\n                    return\n                fi ;;\n");
}

static void put_bash_command(FILE *out, const struct cli_command *command)
{
    const struct cli_operand *operand = operand_of(command->name);

    fprintf(out,
            "    %s)\n        for ((i = 2; i < COMP_CWORD; i++)); do\n            case "
            "${COMP_WORDS[i]} in\n",
            command->name);
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, command->name) && *o->argument)
            put_bash_option(out, o);
    fprintf(out, "            --) ((i++)); break ;;\n            -*) ;;\n            *) break ;;\n "
                 "           esac\n   "
                 "     done\n");
    fprintf(
        out,
        "        if ((i >= COMP_CWORD)) && [[ $cur == -* && ${COMP_WORDS[i - 1]} != -- ]]; then\n");
    fprintf(out, "            COMPREPLY=($(compgen -W \"");
    put_options(out, command->name);
    fprintf(out, "\" -- \"$cur\"))\n");
    if (operand) {
        fprintf(out, "        else\n            ");
        put_bash_value(out, operand->type);
        fputc('\n', out);
    }
    fprintf(out, "        fi ;;\n");
}

void gen_bash(FILE *out)
{
    fprintf(out, "# Completion of vgpu for bash. Made from spec/cli.def by gen_docs.\n\n");
    fprintf(out,
            "_vgpu_command()\n{\n"
            "    if declare -F _command_offset >/dev/null; then\n        _command_offset \"$1\"\n"
            "    elif (($1 == COMP_CWORD)); then\n        COMPREPLY=($(compgen -c -- \"$cur\"))\n"
            "    else\n        compopt -o filenames 2>/dev/null\n        COMPREPLY=($(compgen -f "
            "-- \"$cur\"))\n  "
            "  fi\n}\n\n");
    fprintf(out, "_vgpu()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} i\n    COMPREPLY=()\n"
                 "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W \"");
    put_subcommands(out);
    fputc(' ', out);
    put_options(out, "vgpu");
    fprintf(out, "\" -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++)
        put_bash_command(out, c);
    fprintf(out, "    esac\n}\n\ncomplete -F _vgpu vgpu\n");
}

/* Writes text for an _arguments specification, where brackets and colons have a meaning. */
static void put_zsh_help(FILE *out, const char *text)
{
    for (const char *end = clause_end(text); text < end; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:", *text))
            fprintf(out, "\\%c", *text);
        else if (*text != '`')
            fputc(*text, out);
}

static const char *zsh_action(enum cli_type type)
{
    switch (type) {
    case CLI_FILE:
        return "_files";
    case CLI_INSTANCE:
        return "_vgpu_instances";
    case CLI_GPUS:
        return "_vgpu_gpus";
    case CLI_COMMAND:
    case CLI_PROGRAM:
        return "_command_names -e";
    case CLI_SUBCOMMAND:
        return "_vgpu_subcommands";
    default:
        break;
    }
    return "";
}

static void put_zsh_value(FILE *out, const struct cli_option *option)
{
    const char *words = words_of(option), *name;
    int length = cli_argument_name(option, &name);

    fprintf(out, ":%s%.*s:%s%s%s", cli_argument_optional(option) ? ":" : "", length, name,
            words ? "(" : "", words ? words : zsh_action(option->type), words ? ")" : "");
}

static void put_zsh_command(FILE *out, const struct cli_command *command)
{
    const struct cli_operand *operand = operand_of(command->name);
    size_t length = operand ? strcspn(operand->name, ".") : 0; /* "NAME..." may come again */
    int ends = operand && operand->type == CLI_COMMAND;

    fprintf(out, "    %s)\n        _arguments -S", command->name);
    for (const struct cli_option *o = cli_options; o->command; o++) {
        if (strcmp(o->command, command->name))
            continue;
        fprintf(out, " \\\n            '%s--%s%s%s[", o->type == CLI_VARIABLE ? "*" : "", o->name,
                *o->argument ? "=" : "", cli_argument_optional(o) ? "-" : "");
        put_zsh_help(out, o->help);
        fputc(']', out);
        if (*o->argument)
            put_zsh_value(out, o);
        fputc('\'', out);
    }
    if (operand)
        fprintf(out, " \\\n            '%s:%.*s:%s'",
                ends                    ? "(-)1"
                : operand->name[length] ? "*"
                                        : "1",
                (int)length, operand->name, zsh_action(operand->type));
    if (ends)
        fprintf(out, " \\\n            '*::arguments:_normal'");
    fprintf(out, " ;;\n");
}

void gen_zsh(FILE *out)
{
    fprintf(out,
            "#compdef vgpu\n# Completion of vgpu for zsh. Made from spec/cli.def by gen_docs.\n\n");
    fprintf(out, "_vgpu_instances() { compadd -- ${(f)\"$(" LIST_INSTANCES ")\"} }\n");
    fprintf(out, "_vgpu_gpus() { compadd -- ${(f)\"$(" LIST_GPUS ")\"} }\n\n");
    fprintf(out, "_vgpu_subcommands() {\n    local -a commands=(");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++) {
        fprintf(out, "\n        '%s:", c->name);
        put_quoted(out, c->summary);
        fputc('\'', out);
    }
    fprintf(out, ")\n    _describe command commands\n}\n\n");
    fprintf(out, "_vgpu() {\n    local curcontext=$curcontext state line\n    _arguments -C");
    for (const struct cli_option *o = cli_options; o->command; o++)
        if (!strcmp(o->command, "vgpu")) {
            fprintf(out, " \\\n        '(-)--%s[", o->name);
            put_zsh_help(out, o->help);
            fprintf(out, "]'");
        }
    fprintf(out,
            " \\\n        '1:command:_vgpu_subcommands' \\\n        '*::argument:->arguments'\n");
    fprintf(out, "    [[ $state == arguments ]] || return\n    case $words[1] in\n");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++)
        put_zsh_command(out, c);
    fprintf(out, "    esac\n}\n\n_vgpu \"$@\"\n");
}

static void put_fish_code(FILE *out, const char *code)
{
    fprintf(out, " -x -a '(");
    for (; *code; code++)
        fprintf(out, *code == '\'' ? "\\%c" : "%c", *code);
    fprintf(out, ")'");
}

static void put_fish_value(FILE *out, enum cli_type type)
{
    switch (type) {
    case CLI_FILE:
        fprintf(out, " -r -F");
        break;
    case CLI_INSTANCE:
        put_fish_code(out, LIST_INSTANCES);
        break;
    case CLI_GPUS:
        put_fish_code(out, LIST_GPUS);
        break;
    case CLI_COMMAND:
    case CLI_PROGRAM:
        fprintf(out, " -x -a '(__fish_complete_subcommand --fcs-skip=2)'");
        break;
    case CLI_SUBCOMMAND:
        fprintf(out, " -x -a '");
        put_subcommands(out);
        fprintf(out, "'");
        break;
    default:
        fprintf(out, " -x");
        break;
    }
}

void gen_fish(FILE *out)
{
    fprintf(out, "# Completion of vgpu for fish. Made from spec/cli.def by gen_docs.\n\ncomplete "
                 "-c vgpu -f\n");
    for (const struct cli_command *c = cli_commands + 1; c->name; c++) {
        fprintf(out, "complete -c vgpu -n __fish_use_subcommand -a %s -d '", c->name);
        put_quoted(out, c->summary);
        fprintf(out, "'\n");
    }
    for (const struct cli_option *o = cli_options; o->command; o++) {
        if (strcmp(o->command, "vgpu"))
            fprintf(out, "complete -c vgpu -n '__fish_seen_subcommand_from %s' -l %s", o->command,
                    o->name);
        else
            fprintf(out, "complete -c vgpu -n __fish_use_subcommand -l %s", o->name);
        /* -x: an argument must follow, and it is no file */
        if (*o->argument && words_of(o))
            fprintf(out, "%s -a '%s'", cli_argument_optional(o) ? " -f" : " -x", words_of(o));
        else if (*o->argument)
            put_fish_value(out, o->type);
        fprintf(out, " -d '");
        put_quoted(out, o->help);
        fprintf(out, "'\n");
    }
    for (const struct cli_operand *o = cli_operands; o->command; o++) {
        fprintf(out, "complete -c vgpu -n '__fish_seen_subcommand_from %s'", o->command);
        put_fish_value(out, o->type);
        fputc('\n', out);
    }
}

#include "cli/doctor.h"

#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMN   6
#define DETAIL_COLUMN 29
#define DETAIL_NARROW 76

static const char *const level_names[] = {"ok", "warn", "fail"};

static unsigned count_level(const struct doctor *doctor, enum doctor_level level)
{
    unsigned count = 0;

    for (unsigned i = 0; i < doctor->count; i++)
        count += doctor->check[i].level == level;
    return count;
}

/* "ok preload detail"; on a narrow terminal the detail has lines of its own. */
static void print_check(const struct doctor_check *check, int columns)
{
    static const enum terminal_style styles[] = {TERMINAL_GREEN, TERMINAL_YELLOW, TERMINAL_RED};
    int column = columns < DETAIL_NARROW ? NAME_COLUMN : DETAIL_COLUMN;
    int at = NAME_COLUMN + (int)strlen(check->name);

    printf("%s%-4s%s  %s", terminal_style(stdout, styles[check->level]), level_names[check->level],
           terminal_style(stdout, TERMINAL_PLAIN), check->name);
    if (at > column - 2) {
        fputc('\n', stdout);
        at = 0;
    }
    terminal_wrap(stdout, check->detail, '\0', at, column, columns);
    if (check->advice) {
        printf("%*s-> ", column, "");
        terminal_wrap(stdout, check->advice, '\0', column + 3, column + 3, columns);
    }
}

static void print_lines(const struct doctor *doctor)
{
    int columns = terminal_text_columns(stdout);

    for (unsigned i = 0; i < doctor->count; i++) {
        const struct doctor_check *check = &doctor->check[i];

        print_check(check, columns);
    }
    printf("\n%u ok, %u to know about, %u failed\n", count_level(doctor, DOCTOR_OK),
           count_level(doctor, DOCTOR_WARN), count_level(doctor, DOCTOR_FAIL));
}

static bool print_json(const struct doctor *doctor)
{
    json_t *root = json_object(), *checks = json_array();
    char *text;

    for (unsigned i = 0; i < doctor->count; i++) {
        const struct doctor_check *check = &doctor->check[i];
        json_t *row = json_object(), *detail = json_string(check->detail);

        json_object_set_new(row, "name", json_string(check->name));
        json_object_set_new(row, "status", json_string(level_names[check->level]));
        json_object_set_new(row, "detail",
                            detail ? detail : json_string("?")); /* a path need not be UTF-8 */
        json_object_set_new(row, "advice",
                            check->advice ? json_string(check->advice) : json_null());
        json_array_append_new(checks, row);
    }
    json_object_set_new(root, "checks", checks);
    for (unsigned level = DOCTOR_OK; level <= DOCTOR_FAIL; level++)
        json_object_set_new(root, level_names[level], json_integer(count_level(doctor, level)));
    text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (!text)
        return false;
    printf("%s\n", text);
    free(text);
    return true;
}

int command_doctor(char **argv)
{
    static struct doctor doctor;
    struct doctor_options options = {.json = false};
    char **operands;
    int status;

    if (!options_parse("doctor", argv, &options, &operands, &status))
        return status;
    doctor_driver(&doctor);
    doctor_nvml(&doctor);
    doctor_libc(&doctor);
    doctor_library(&doctor);
    doctor_runtime_dir(&doctor);
    doctor_arena_dir(&doctor);
    doctor_turns(&doctor);
    doctor_environment(&doctor);
    doctor_preload_file(&doctor);
    doctor_namespaces(&doctor);
    doctor_guard(&doctor);
    if (*operands)
        doctor_program(&doctor, *operands);
    if (!options.json) {
        print_lines(&doctor);
    } else if (!print_json(&doctor)) {
        message_error("doctor: out of memory");
        return STATUS_FAILED;
    }
    status = command_finish_output();
    return count_level(&doctor, DOCTOR_FAIL) ? STATUS_FAILED : status;
}

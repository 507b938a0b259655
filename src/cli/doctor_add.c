#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_add(struct doctor *doctor, enum doctor_level level, const char *name,
                const char *advice, const char *detail, ...)
{
    struct doctor_check *check;
    va_list arguments;

    if (doctor->count == DOCTOR_CHECKS_MAX)
        return;
    check = &doctor->check[doctor->count++];
    check->level = level;
    check->name = name;
    check->advice = level == DOCTOR_OK ? NULL : advice;
    va_start(arguments, detail);
    vsnprintf(check->detail, sizeof(check->detail), detail, arguments);
    va_end(arguments);
}

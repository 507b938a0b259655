#include "cli/gen.h"

#include <stdint.h>
#include <stdio.h>

const char *gen_setting_range(enum setting setting, char *buffer, size_t size)
{
    const struct setting_row *row = &setting_rows[setting];
    char most[32] = "and up";
    int length = 0;

    if (row->max && row->max < INT32_MAX)
        snprintf(most, sizeof(most), "to %ju", (uintmax_t)row->max);
    if (row->max)
        length =
            snprintf(buffer, size, "%ju %s%s", (uintmax_t)row->min, most, row->range ? "; " : "");
    snprintf(buffer + length, size - (size_t)length, "%s", row->range ? row->range : "");
    return buffer;
}

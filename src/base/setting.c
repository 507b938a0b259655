#include "base/setting.h"

#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct setting_row setting_rows[SETTINGS] = {
#define SETTING(id, env_name, type_name, help, ...)                                                \
    {.env = env_name, .type = type_name, __VA_ARGS__},
#include "config.def"
#undef SETTING
};

static const char *not_empty(const char *text)
{
    return text && *text ? text : NULL;
}

const char *setting_name(enum setting setting)
{
    return setting_rows[setting].env;
}

const char *setting_raw(enum setting setting)
{
    const struct setting_row *row = &setting_rows[setting];

    return row->secure ? secure_getenv(row->env) : getenv(row->env);
}

const char *setting_text(enum setting setting)
{
    return not_empty(setting_raw(setting));
}

const char *setting_secure_text(enum setting setting)
{
    return not_empty(secure_getenv(setting_rows[setting].env));
}

const char *setting_device_text(enum setting setting, unsigned device,
                                char name[SETTING_NAME_BYTES])
{
    const char *env = setting_rows[setting].env;

    snprintf(name, SETTING_NAME_BYTES, "%.*s%u", (int)strcspn(env, "<"), env, device);
    return not_empty(getenv(name));
}

uint64_t setting_number_of(enum setting setting, const char *text)
{
    const struct setting_row *row = &setting_rows[setting];
    uint64_t number = 0;

    if (text && parse_count(text, row->min, UINT64_MAX, &number) == 0)
        return number < row->max ? number : row->max;
    return row->initial && parse_count(row->initial, 0, UINT64_MAX, &number) == 0 ? number : 0;
}

uint64_t setting_number(enum setting setting)
{
    return setting_number_of(setting, setting_text(setting));
}

bool setting_accepts(enum setting setting, const char *text)
{
    const char *word = setting_rows[setting].range;
    size_t length = strcspn(word, "|");

    while (strlen(text) != length || strncasecmp(word, text, length) != 0) {
        if (!word[length])
            return false;
        word += length + 1;
        length = strcspn(word, "|");
    }
    return true;
}

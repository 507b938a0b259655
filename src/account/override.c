#include "account/override.h"

#include "base/file.h"

#include <string.h>

#define FILE_BYTES 8192

static char text[FILE_BYTES]; /* lines end with NUL */
static size_t length;

void override_read(const char *path)
{
    length = 0;
    if (file_read_small(path, text, sizeof(text), &length) < 0)
        return;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = '\0';
    }
}

const char *override_get(const char *name)
{
    size_t name_length = strlen(name);
    const char *found = NULL;

    for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
        if (strncmp(text + at, name, name_length) == 0 && text[at + name_length] == '=')
            found = text + at + name_length + 1;
    }
    return found;
}

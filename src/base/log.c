#include "base/fsize.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/setting.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 1024

static const char prefix[] = "vgpu: ";

/* -1: not read yet. Two threads that read it at once store the same value. */
static atomic_int current_level = -1;

static int level_from_environment(void)
{
    const char *text = setting_text(SETTING_LOG_LEVEL);

    if (!text)
        text = setting_text(SETTING_LOG_LEVEL_ALIAS);
    return (int)setting_number_of(SETTING_LOG_LEVEL, text);
}

bool log_wanted(enum log_level level)
{
    int current = atomic_load_explicit(&current_level, memory_order_relaxed);

    if (current < 0) {
        current = level_from_environment();
        atomic_store_explicit(&current_level, current, memory_order_relaxed);
    }
    return (int)level <= current;
}

/* The length of the UTF-8 character at `text`; 0: it is none. The first byte is not ASCII. */
static size_t character_at(const char *text, size_t length, uint32_t *ret_code)
{
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    uint32_t code = first & (0xffu >> (bytes + 1));

    if (bytes == 0 || first >= 0xf5 || bytes > length)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    *ret_code = code;
    return bytes;
}

/*
 * Controls of ISO 6429 beyond ASCII, and the marks of text direction: U+200E.., U+202A.., U+2066..
 */
static bool is_control(uint32_t code)
{
    return code < 0xa0 || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void log_make_plain(char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t code = 0;
        size_t bytes = byte < 0x80 ? 1 : character_at(text + i, length - i, &code);

        if (bytes == 0 || (byte < 0x80 ? byte < ' ' || byte == 0x7f : is_control(code)))
            memset(text + i, '?', bytes ? bytes : 1);
        i += bytes ? bytes : 1;
    }
}

void log_write(enum log_level level, const char *format, ...)
{
    NO_CANCEL;
    KEEP_ERRNO;
    char line[LINE_BYTES];
    size_t used = sizeof(prefix) - 1;
    va_list args;
    int length;

    if (!log_wanted(level))
        return;
    memcpy(line, prefix, used);
    va_start(args, format);
    length = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    used += (size_t)length;
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    log_make_plain(line, used);
    line[used++] = '\n';
    FSIZE_SCOPE;
    /* A line that stderr does not take is lost. */
    if (write(STDERR_FILENO, line, used) < 0)
        return;
}

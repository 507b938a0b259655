#include "base/log.h"

#include "base/fsize.h"
#include "base/nocancel.h"
#include "base/parse.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 1024

static const char prefix[] = "vgpu: ";

/* -1: not read yet. Two threads that read it at once find the same. */
static atomic_int current_level = -1;

static int level_from_environment(void)
{
    const char *text = secure_getenv("VGPU_LOG_LEVEL");
    uint64_t level;

    if (!text || !*text)
        text = secure_getenv("LIBCUDA_LOG_LEVEL");
    if (!text || parse_count(text, 0, UINT32_MAX, &level) < 0)
        return LOG_LEVEL_WARNING;
    return level > LOG_LEVEL_DEBUG ? LOG_LEVEL_DEBUG : (int)level;
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

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

void log_make_plain(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
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
    /* A line that stderr does not take is lost; there is nobody to tell. */
    if (write(STDERR_FILENO, line, used) < 0)
        return;
}

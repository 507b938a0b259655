#include "cli/message.h"

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *kind, const char *format, va_list arguments)
{
    char line[4096];
    int saved_errno = errno;
    int head = snprintf(line, sizeof(line), "vgpu: %s", kind);
    int body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, arguments);
    size_t length = (size_t)head + (body < 0 ? 0 : (size_t)body);

    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    log_make_plain(line, length);
    line[length++] = '\n';
    while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
        continue;
    errno = saved_errno;
}

void message_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

void message_warning(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("warning: ", format, arguments);
    va_end(arguments);
}

void message_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("note: ", format, arguments);
    va_end(arguments);
}

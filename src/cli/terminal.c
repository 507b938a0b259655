#include "cli/terminal.h"

#include "base/setting.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_columns(FILE *out)
{
    uint64_t columns = setting_number(SETTING_COLUMNS);
    struct winsize size;

    if (!columns)
        columns = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
                                                                            : TERMINAL_DEFAULT;
    return columns < TERMINAL_NARROWEST ? TERMINAL_NARROWEST : (int)columns;
}

int terminal_text_columns(FILE *out)
{
    int columns = terminal_columns(out);

    return columns < TERMINAL_WIDEST ? columns : TERMINAL_WIDEST;
}

static bool shows_colour(FILE *out)
{
    const char *kind = setting_raw(SETTING_TERMINAL);

    return !setting_text(SETTING_NO_COLOR) && kind && strcmp(kind, "dumb") != 0 &&
           isatty(fileno(out));
}

const char *terminal_style(FILE *out, enum terminal_style style)
{
    static const char *const sequences[] = {[TERMINAL_PLAIN] = "\033[0m",
                                            [TERMINAL_BOLD] = "\033[1m",
                                            [TERMINAL_GREEN] = "\033[32m",
                                            [TERMINAL_YELLOW] = "\033[33m",
                                            [TERMINAL_RED] = "\033[31m"};

    return shows_colour(out) ? sequences[style] : "";
}

void terminal_wrap(FILE *out, const char *text, char mark, int at, int indent, int columns)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        int shown = 0;

        for (size_t i = 0; i < length; i++)
            shown += text[i] != mark;
        if (at > indent && at + 1 + shown > columns) {
            fprintf(out, "\n");
            at = 0;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        for (; at < indent; at++)
            fputc(' ', out);
        for (size_t i = 0; i < length; i++)
            if (text[i] != mark)
                fputc(text[i], out);
        at += shown;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

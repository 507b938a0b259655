/* The terminal: width, colours, and text wrapped to the width. */
#ifndef VGPU_CLI_TERMINAL_H
#define VGPU_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#define TERMINAL_NARROWEST 60
#define TERMINAL_WIDEST    100 /* longer lines are hard to read */
#define TERMINAL_DEFAULT   80  /* without a terminal and COLUMNS */

/* The width, at least TERMINAL_NARROWEST: COLUMNS if it is a number, else that of the terminal
 * `out`. */
int terminal_columns(FILE *out);

/* The same, at most TERMINAL_WIDEST, for running text. */
int terminal_text_columns(FILE *out);

/* The escape sequence of a style, or "" if `out` is no terminal, TERM is "dumb" or NO_COLOR is set.
 * TERMINAL_PLAIN ends the other styles. */
enum terminal_style {
    TERMINAL_PLAIN,
    TERMINAL_BOLD,
    TERMINAL_GREEN,
    TERMINAL_YELLOW,
    TERMINAL_RED
};
const char *terminal_style(FILE *out, enum terminal_style style);

/* Prints `text` and a line feed between the columns `indent` and `columns`, from column `at`.
 * Breaks lines at blanks only, and leaves out the character `mark` ('\0': none). */
void terminal_wrap(FILE *out, const char *text, char mark, int at, int indent, int columns);

#endif

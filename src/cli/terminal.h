/* What a person reads on: how wide it is, whether it shows colours, and text that keeps within
 * it. */
#ifndef VGPU_CLI_TERMINAL_H
#define VGPU_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#define TERMINAL_NARROWEST 60
#define TERMINAL_WIDEST    100 /* longer lines are hard to read */
#define TERMINAL_DEFAULT   80  /* where there is no terminal and no COLUMNS */

/* Columns to write into, TERMINAL_NARROWEST or more: COLUMNS where it is a number, else the
 * terminal behind `out`. */
int terminal_columns(FILE *out);

/* The same for running text: TERMINAL_WIDEST at most. */
int terminal_text_columns(FILE *out);

/*
 * Text that stands out, as an escape sequence, or "" where `out` is no terminal, TERM is dumb, or
 * NO_COLOR is set to anything. TERMINAL_PLAIN ends what the others begin.
 */
enum terminal_style {
    TERMINAL_PLAIN,
    TERMINAL_BOLD,
    TERMINAL_GREEN,
    TERMINAL_YELLOW,
    TERMINAL_RED
};
const char *terminal_style(FILE *out, enum terminal_style style);

/*
 * Prints `text` and a line feed between the columns `indent` and `columns`; the cursor stands at
 * column `at`. Breaks at blanks; a word that is longer than a line is not broken. The character
 * `mark` is left out ('\0': none).
 */
void terminal_wrap(FILE *out, const char *text, char mark, int at, int indent, int columns);

#endif

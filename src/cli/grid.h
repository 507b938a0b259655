/*
 * A table on a terminal: cells of text in columns that are as wide as their widest cell. What a
 * cell quotes may be anybody's: control characters in it are shown as question marks.
 */
#ifndef VGPU_CLI_GRID_H
#define VGPU_CLI_GRID_H

#include "cli/terminal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define GRID_COLUMNS_MAX 24

struct grid;

/* `columns` <= GRID_COLUMNS_MAX. NULL: out of memory. */
struct grid *grid_new(unsigned columns);
void grid_free(struct grid *grid);

void grid_align_right(struct grid *grid, unsigned column);

/*
 * For a table that is too wide: columns with the highest rank (above 0) are left out first; then
 * those with `least` above 0 are cut to so many characters, the widest first.
 */
void grid_rank(struct grid *grid, unsigned column, unsigned rank, unsigned least);

/* Begins a row of empty cells. Out of memory is remembered: grid_print() fails then. */
void grid_row(struct grid *grid);
/* Sets a cell of the newest row; the text is copied. */
void grid_cell(struct grid *grid, unsigned column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How a cell of the last row stands out on a terminal. */
void grid_style(struct grid *grid, unsigned column, enum terminal_style style);

/* Begins the first row with heads for the first `count` columns; the row stands out on a
 * terminal. */
void grid_heads(struct grid *grid, const char *const *heads, unsigned count);

/* The same with a span of time, for people. */
void grid_duration(struct grid *grid, unsigned column, uint64_t ns);

/* Makes it fit into `width` characters, as far as ranks allow. Once, when all cells are there. */
void grid_fit(struct grid *grid, unsigned width);

/* False: memory has run out before. */
bool grid_print(const struct grid *grid, FILE *out);

#endif

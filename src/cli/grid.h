/* A table on a terminal, with columns as wide as their widest cell. A cell may quote another user's
 * text: control characters show as question marks. */
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

/* How a column of a table that is too wide gives way. Columns with the highest rank above 0 go
 * first. Then columns with `least` above 0 are cut down to so many characters, the widest first. */
void grid_rank(struct grid *grid, unsigned column, unsigned rank, unsigned least);

/* Begins a row of empty cells. After an allocation failure grid_print() returns false. */
void grid_row(struct grid *grid);
/* Sets a cell of the last row, and copies the text. */
void grid_cell(struct grid *grid, unsigned column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the style of a cell of the last row. */
void grid_style(struct grid *grid, unsigned column, enum terminal_style style);

/* Begins the first row with the heads of the first `count` columns, in bold on a terminal. */
void grid_heads(struct grid *grid, const char *const *heads, unsigned count);

/* Sets a cell to a duration. */
void grid_duration(struct grid *grid, unsigned column, uint64_t ns);

/* Makes the table fit into `width` characters as far as the ranks allow. Call it once, when all
 * cells are set. */
void grid_fit(struct grid *grid, unsigned width);

/* False: an earlier allocation failed. */
bool grid_print(const struct grid *grid, FILE *out);

#endif

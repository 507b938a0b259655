#include "cli/grid.h"

#include "base/parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct grid {
    unsigned columns, rows;
    bool right[GRID_COLUMNS_MAX];
    bool failed;
    char **cells; /* rows * columns; NULL: empty */
};

struct grid *grid_new(unsigned columns)
{
    struct grid *grid = columns <= GRID_COLUMNS_MAX ? calloc(1, sizeof(*grid)) : NULL;

    if (grid)
        grid->columns = columns;
    return grid;
}

void grid_free(struct grid *grid)
{
    if (!grid)
        return;
    for (size_t i = 0; i < (size_t)grid->rows * grid->columns; i++)
        free(grid->cells[i]);
    free(grid->cells);
    free(grid);
}

void grid_align_right(struct grid *grid, unsigned column)
{
    grid->right[column] = true;
}

void grid_row(struct grid *grid)
{
    size_t have = (size_t)grid->rows * grid->columns;
    char **cells = grid->failed ? NULL : realloc(grid->cells, (have + grid->columns) * sizeof(*cells));

    if (!cells) {
        grid->failed = true;
        return;
    }
    memset(cells + have, 0, grid->columns * sizeof(*cells));
    grid->cells = cells;
    grid->rows++;
}

void grid_cell(struct grid *grid, unsigned column, const char *format, ...)
{
    char **cell;
    va_list arguments;

    if (grid->failed || !grid->rows || column >= grid->columns)
        return;
    cell = &grid->cells[(size_t)(grid->rows - 1) * grid->columns + column];
    free(*cell);
    *cell = NULL;
    va_start(arguments, format);
    if (vasprintf(cell, format, arguments) < 0) {
        *cell = NULL;
        grid->failed = true;
    }
    va_end(arguments);
}

static const char *cell_text(const struct grid *grid, unsigned row, unsigned column)
{
    const char *text = grid->cells[(size_t)row * grid->columns + column];

    return text ? text : "";
}

bool grid_print(const struct grid *grid, FILE *out)
{
    int width[GRID_COLUMNS_MAX] = {0};

    if (grid->failed)
        return false;
    for (unsigned row = 0; row < grid->rows; row++)
        for (unsigned column = 0; column < grid->columns; column++) {
            int length = (int)strlen(cell_text(grid, row, column));

            width[column] = length > width[column] ? length : width[column];
        }
    for (unsigned row = 0; row < grid->rows; row++) {
        int owed = 0; /* blanks that are only written if something follows */

        for (unsigned column = 0; column < grid->columns; column++) {
            const char *text = cell_text(grid, row, column);
            int length = (int)strlen(text);

            if (length) {
                owed += grid->right[column] ? width[column] - length : 0;
                fprintf(out, "%*s%s", owed, "", text);
                owed = grid->right[column] ? 0 : width[column] - length;
            } else {
                owed += width[column];
            }
            owed += 2;
        }
        fputc('\n', out);
    }
    return true;
}

void grid_duration(struct grid *grid, unsigned column, uint64_t ns)
{
    char text[DURATION_TEXT_BYTES];

    grid_cell(grid, column, "%s", format_duration(ns, text, sizeof(text)));
}

#include "cli/grid.h"

#include "base/log.h"
#include "base/parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct grid {
    unsigned columns, rows;
    bool right[GRID_COLUMNS_MAX], out[GRID_COLUMNS_MAX];
    unsigned rank[GRID_COLUMNS_MAX], least[GRID_COLUMNS_MAX];
    bool failed, heads; /* heads: the first row is bold */
    struct cell {
        char *text; /* NULL: empty */
        enum terminal_style style;
    } * cells; /* rows * columns */
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
        free(grid->cells[i].text);
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
    struct cell *cells =
        grid->failed ? NULL : realloc(grid->cells, (have + grid->columns) * sizeof(*cells));

    if (!cells) {
        grid->failed = true;
        return;
    }
    memset(cells + have, 0, grid->columns * sizeof(*cells));
    grid->cells = cells;
    grid->rows++;
}

/* A cell of the last row; NULL: out of memory. */
static struct cell *cell_at_end(struct grid *grid, unsigned column)
{
    if (grid->failed || !grid->rows || column >= grid->columns)
        return NULL;
    return &grid->cells[(size_t)(grid->rows - 1) * grid->columns + column];
}

void grid_cell(struct grid *grid, unsigned column, const char *format, ...)
{
    struct cell *cell = cell_at_end(grid, column);
    va_list arguments;

    if (!cell)
        return;
    free(cell->text);
    cell->text = NULL;
    va_start(arguments, format);
    if (vasprintf(&cell->text, format, arguments) < 0) {
        cell->text = NULL;
        grid->failed = true;
    } else {
        log_make_plain(cell->text, strlen(cell->text));
    }
    va_end(arguments);
}

void grid_style(struct grid *grid, unsigned column, enum terminal_style style)
{
    struct cell *cell = cell_at_end(grid, column);

    if (cell)
        cell->style = style;
}

void grid_heads(struct grid *grid, const char *const *heads, unsigned count)
{
    grid_row(grid);
    grid->heads = true;
    for (unsigned i = 0; i < count; i++)
        grid_cell(grid, i, "%s", heads[i]);
}

static const char *cell_text(const struct grid *grid, unsigned row, unsigned column)
{
    const char *text = grid->cells[(size_t)row * grid->columns + column].text;

    return text ? text : "";
}

/* The length in characters of UTF-8. */
static unsigned shown(const char *text)
{
    unsigned count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static unsigned column_width(const struct grid *grid, unsigned column)
{
    unsigned most = 0;

    for (unsigned row = 0; row < grid->rows; row++) {
        unsigned width = shown(cell_text(grid, row, column));

        most = width > most ? width : most;
    }
    return most;
}

static unsigned total_width(const struct grid *grid)
{
    unsigned sum = 0;

    for (unsigned column = 0; column < grid->columns; column++)
        sum += grid->out[column] ? 0 : column_width(grid, column) + (column ? 2 : 0);
    return sum;
}

void grid_rank(struct grid *grid, unsigned column, unsigned rank, unsigned least)
{
    grid->rank[column] = rank;
    grid->least[column] = least;
}

/* Leaves out a column. False: no column may be left out. */
static bool leave_out(struct grid *grid)
{
    unsigned first = GRID_COLUMNS_MAX;

    for (unsigned column = 0; column < grid->columns; column++)
        if (grid->rank[column] && !grid->out[column] &&
            (first == GRID_COLUMNS_MAX || grid->rank[column] > grid->rank[first]))
            first = column;
    if (first == GRID_COLUMNS_MAX)
        return false;
    grid->out[first] = true;
    return true;
}

/* Cuts the cells of the column that are longer than `width`, with a '+' at the end. */
static void cut(struct grid *grid, unsigned column, unsigned width)
{
    for (unsigned row = 0; row < grid->rows; row++) {
        char *at = grid->cells[(size_t)row * grid->columns + column].text;
        unsigned count = 0;

        if (!at || shown(at) <= width)
            continue;
        for (; count < width - 1 || ((unsigned char)*at & 0xc0) == 0x80; at++)
            count += ((unsigned char)at[1] & 0xc0) != 0x80;
        strcpy(at, "+");
    }
}

/* Cuts the widest column that may be cut. False: none may be cut further. */
static bool cut_widest(struct grid *grid, unsigned excess)
{
    unsigned widest = GRID_COLUMNS_MAX, most = 0;

    for (unsigned column = 0; column < grid->columns; column++) {
        unsigned width = grid->out[column] || !grid->least[column] ? 0 : column_width(grid, column);

        if (width > grid->least[column] && width > most) {
            widest = column;
            most = width;
        }
    }
    if (widest == GRID_COLUMNS_MAX)
        return false;
    cut(grid, widest, most > grid->least[widest] + excess ? most - excess : grid->least[widest]);
    return true;
}

void grid_fit(struct grid *grid, unsigned width)
{
    if (grid->failed)
        return;
    while (total_width(grid) > width && leave_out(grid))
        continue;
    while (total_width(grid) > width && cut_widest(grid, total_width(grid) - width))
        continue;
}

static void print_text(const struct grid *grid, unsigned row, unsigned column, FILE *out)
{
    enum terminal_style own = grid->cells[(size_t)row * grid->columns + column].style;
    enum terminal_style style = row == 0 && grid->heads ? TERMINAL_BOLD : own;
    const char *begin = style == TERMINAL_PLAIN ? "" : terminal_style(out, style);

    fprintf(out, "%s%s%s", begin, cell_text(grid, row, column),
            *begin ? terminal_style(out, TERMINAL_PLAIN) : "");
}

bool grid_print(const struct grid *grid, FILE *out)
{
    unsigned width[GRID_COLUMNS_MAX] = {0};

    if (grid->failed)
        return false;
    for (unsigned column = 0; column < grid->columns; column++)
        width[column] = column_width(grid, column);
    for (unsigned row = 0; row < grid->rows; row++) {
        unsigned owed = 0; /* blanks to write before the next text of the row */

        for (unsigned column = 0; column < grid->columns; column++) {
            const char *text = cell_text(grid, row, column);
            unsigned length = shown(text);

            if (grid->out[column])
                continue;
            if (length) {
                owed += grid->right[column] ? width[column] - length : 0;
                fprintf(out, "%*s", (int)owed, "");
                print_text(grid, row, column, out);
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

/* The counts of a traced run. All processes of the instance add to one file; counts from before
 * this run are not this run's. */
#include "cli/run.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "cli/grid.h"
#include "cli/message.h"
#include "cli/path.h"
#include "account/trace_counts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order of the rows of the file. */
static const char *const symbols[] = {
#define HOOK(symbol, handler) #symbol,
#define PASS(symbol)          #symbol,
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS
};

#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

struct counts {
    uint64_t magic, row_count, lost_lines, lost_errno;
    struct {
        uint64_t calls, bytes;
    } row[SYMBOLS];
};

_Static_assert(sizeof(struct vgpu_trace_row) == 16 && sizeof(struct vgpu_trace_counts) == 32,
               "counts as in the file");

static struct counts before;

static bool read_counts(const char *path, struct counts *ret_counts)
{
    int fd CLEANUP_CLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 &&
           pread(fd, ret_counts, sizeof(*ret_counts), 0) == (ssize_t)sizeof(*ret_counts) &&
           ret_counts->magic == TRACE_COUNTS_MAGIC && ret_counts->row_count == SYMBOLS;
}

bool run_trace_prepare(const char *instance_dir)
{
    static struct counts empty = {.magic = TRACE_COUNTS_MAGIC, .row_count = SYMBOLS};
    char path[PATH_MAX], text[128];
    int error = -ENAMETOOLONG;

    if (path_join(path, sizeof(path), instance_dir, TRACE_COUNTS_NAME)) {
        if (read_counts(path, &before))
            return true;
        error = file_write_atomic(path, &empty, sizeof(empty), 0600);
    }
    if (error)
        message_error("run: --trace: cannot make the file of counts %s: %s", path,
                      err_text(error, text, sizeof(text)));
    return error == 0;
}

/* Orders by calls, then by bytes, then by symbol. */
static int by_calls(const void *a, const void *b, void *counts_of)
{
    const struct counts *counts = counts_of;
    unsigned i = *(const unsigned *)a, j = *(const unsigned *)b;

    if (counts->row[i].calls != counts->row[j].calls)
        return counts->row[i].calls < counts->row[j].calls ? 1 : -1;
    if (counts->row[i].bytes != counts->row[j].bytes)
        return counts->row[i].bytes < counts->row[j].bytes ? 1 : -1;
    return i < j ? -1 : i > j;
}

/* Writes the counts to the file. False: it is incomplete. */
static bool append_lines(const char *file, const struct counts *counts, const unsigned *order,
                         unsigned shown)
{
    FILE *out = fopen(file, "ae");

    for (unsigned i = 0; out && i < shown; i++)
        fprintf(out, "{\"symbol\":\"%s\",\"calls\":%" PRIu64 ",\"total_bytes\":%" PRIu64 "}\n",
                symbols[order[i]], counts->row[order[i]].calls, counts->row[order[i]].bytes);
    if (out && !fclose(out))
        return true;
    message_error("run: --trace %s: the summary cannot be added: %s", file, strerror(errno));
    return false;
}

static void print_table(const struct counts *counts, const unsigned *order, unsigned shown)
{
    struct grid *grid = grid_new(3);
    char text[SIZE_TEXT_BYTES];

    if (!grid)
        return;
    grid_row(grid);
    grid_cell(grid, 0, "SYMBOL");
    grid_cell(grid, 1, "CALLS");
    grid_cell(grid, 2, "BYTES");
    grid_align_right(grid, 1);
    grid_align_right(grid, 2);
    for (unsigned i = 0; i < shown; i++) {
        grid_row(grid);
        grid_cell(grid, 0, "%s", symbols[order[i]]);
        grid_cell(grid, 1, "%" PRIu64, counts->row[order[i]].calls);
        if (counts->row[order[i]].bytes)
            grid_cell(grid, 2, "%s", format_bytes(counts->row[order[i]].bytes, text, sizeof(text)));
    }
    grid_print(grid, stderr);
    fflush(stderr);
    grid_free(grid);
}

bool run_trace_summary(const char *instance_dir, const char *file)
{
    static struct counts now;
    static unsigned order[SYMBOLS];
    char path[PATH_MAX];
    unsigned shown = 0;
    uint64_t lost;

    if (!path_join(path, sizeof(path), instance_dir, TRACE_COUNTS_NAME) ||
        !read_counts(path, &now)) {
        message_error("run: --trace: the counts in %s cannot be read", path);
        return false;
    }
    for (unsigned i = 0; i < SYMBOLS; i++) {
        now.row[i].calls -= before.row[i].calls;
        now.row[i].bytes -= before.row[i].bytes;
        if (now.row[i].calls || now.row[i].bytes)
            order[shown++] = i;
    }
    if (!shown) {
        message_note("trace: no driver call was seen");
        return true;
    }
    qsort_r(order, shown, sizeof(order[0]), by_calls, &now);
    message_note("trace: calls and bytes of each driver function; the calls that take or give back "
                 "memory are in %s",
                 file);
    print_table(&now, order, shown);
    lost = now.lost_lines - before.lost_lines;
    if (lost)
        message_error("trace: %s is incomplete: %" PRIu64 " lines could not be written: %s", file,
                      lost, strerror((int)now.lost_errno));
    return append_lines(file, &now, order, shown) && !lost;
}

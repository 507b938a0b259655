#include "hook/loader/trace.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "base/fsize.h"
#include "base/log.h"
#include "base/setting.h"
#include "hook/loader/hook.h"
#include "hook/loader/pass.h"
#include "hook/loader/state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES 320

atomic_bool trace_enabled;

static struct vgpu_trace_row own_rows[ENTRY_COUNT];
struct vgpu_trace_row *trace_rows = own_rows;
static int trace_fd = -1;

/* The head of the file that trace_rows is in. NULL: the counts are this process's own. Set once,
 * before anything is traced. */
static struct vgpu_trace_counts *trace_head;
static atomic_bool torn; /* the file ends in the middle of a line of this process */

static void lost(int error)
{
    static atomic_bool told;

    if (trace_head) {
        atomic_store_explicit(&trace_head->lost_errno, (uint64_t)error, memory_order_relaxed);
        atomic_fetch_add_explicit(&trace_head->lost_lines, 1, memory_order_relaxed);
    } else if (!atomic_exchange(&told, true)) {
        log_warning("the trace file is incomplete: %s", strerror(error));
    }
}

static ssize_t write_all(const char *bytes, int length)
{
    ssize_t written;

    do
        written = write(trace_fd, bytes, (size_t)length);
    while (written < 0 && errno == EINTR);
    return written;
}

/* O_APPEND: a line is whole, whichever process writes it, unless the file system is full. */
static void write_line(const char *line, int length)
{
    ssize_t written;

    if (trace_fd < 0 || length <= 0 || length >= LINE_BYTES)
        return;
    if (atomic_load_explicit(&torn, memory_order_relaxed) && write_all("\n", 1) == 1)
        atomic_store_explicit(&torn, false, memory_order_relaxed);
    written = write_all(line, length);
    if (written == length)
        return;
    lost(written < 0 ? errno : ENOSPC);
    if (written > 0)
        atomic_store_explicit(&torn, true, memory_order_relaxed);
}

void trace_memory_slow(enum hook_symbol sym, uint64_t bytes, uint64_t address, CUresult result)
{
    KEEP_ERRNO;
    uint64_t now_us = clock_real_ns() / 1000;
    char line[LINE_BYTES];

    if (result == CUDA_SUCCESS)
        atomic_fetch_add_explicit(&trace_rows[sym].bytes, bytes, memory_order_relaxed);
    if (trace_fd < 0)
        return;
    write_line(line, snprintf(line, sizeof(line),
                              "{\"time\":%" PRIu64
                              ".%06u,\"pid\":%d,\"tid\":%ld,\"symbol\":\"%s\",\"bytes\":%" PRIu64
                              ",\"address\":\"0x%" PRIx64 "\",\"result\":%d}\n",
                              now_us / 1000000, (unsigned)(now_us % 1000000), (int)getpid(),
                              (long)syscall(SYS_gettid), hook_symbol_name(sym), bytes, address,
                              (int)result));
}

void trace_bytes_slow(enum hook_symbol sym, uint64_t bytes)
{
    atomic_fetch_add_explicit(&trace_rows[sym].bytes, bytes, memory_order_relaxed);
}

/* The counts of this process only; one line a symbol. */
static void write_own_rows(void)
{
    char line[LINE_BYTES];

    for (int entry = 0; entry < ENTRY_COUNT; entry++) {
        uint64_t calls = atomic_load_explicit(&own_rows[entry].calls, memory_order_relaxed);

        if (calls == 0)
            continue;
        write_line(line,
                   snprintf(line, sizeof(line),
                            "{\"pid\":%d,\"symbol\":\"%s\",\"calls\":%" PRIu64
                            ",\"total_bytes\":%" PRIu64 "}\n",
                            (int)getpid(), symbols_name(entry), calls,
                            atomic_load_explicit(&own_rows[entry].bytes, memory_order_relaxed)));
    }
}

static void at_exit(void)
{
    KEEP_ERRNO;

    if (trace_rows == own_rows)
        write_own_rows();
}

/* A child's counts begin with the fork; the parent reports what came before. */
static void trace_in_child(void *arg)
{
    (void)arg;
    for (int entry = 0; entry < ENTRY_COUNT; entry++) {
        atomic_store_explicit(&own_rows[entry].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&own_rows[entry].bytes, 0, memory_order_relaxed);
    }
}

/* The instance's counts, or NULL. Another process may write the file: nothing but its size and head
 * is trusted. */
static struct vgpu_trace_counts *map_counts(const char *instance_dir)
{
    const size_t size = trace_counts_size(ENTRY_COUNT);
    char path[PATH_MAX];
    struct vgpu_trace_counts *counts;
    int fd CLEANUP_CLOSE = -1;

    if ((size_t)snprintf(path, sizeof(path), "%s/" TRACE_COUNTS_NAME, instance_dir) >= sizeof(path))
        return NULL;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || lseek(fd, 0, SEEK_END) < (off_t)size)
        return NULL;
    counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        return NULL;
    if (counts->magic != TRACE_COUNTS_MAGIC || counts->row_count != ENTRY_COUNT) {
        munmap(counts, size);
        return NULL;
    }
    return counts;
}

/* Moves along what was counted before the switch. */
static void switch_rows(struct vgpu_trace_row *syms)
{
    __atomic_store_n(&trace_rows, syms, __ATOMIC_RELEASE);
    for (int entry = 0; entry < ENTRY_COUNT; entry++) {
        atomic_fetch_add_explicit(&syms[entry].calls, atomic_exchange(&own_rows[entry].calls, 0),
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&syms[entry].bytes, atomic_exchange(&own_rows[entry].bytes, 0),
                                  memory_order_relaxed);
    }
}

void trace_start(const char *instance_dir)
{
    static struct fork_watch watch = {.child = trace_in_child, .at_once = true};
    const char *path = setting_text(SETTING_TRACE);
    struct vgpu_trace_counts *counts = instance_dir ? map_counts(instance_dir) : NULL;

    if (!path)
        return;
    trace_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (trace_fd < 0)
        log_warning("the trace file %s cannot be opened: %s", path, strerror(errno));
    trace_head = counts;
    if (counts)
        switch_rows(counts->row);
    fork_watch_add(&watch);
    atexit(at_exit);
    atomic_store(&trace_enabled, true);
}

/*
 * The book: what the driver has given to whom, and what it was asked.
 */
#include "fakerm.h"

#include <inttypes.h>
#include <stdlib.h>

#define BUCKETS 4096u

struct book book;

static const char *const call_names[BOOK_CALLS] = {
    [BOOK_ROOT] = "root",
    [BOOK_ALLOC] = "alloc",
    [BOOK_FREE] = "free",
    [BOOK_DUP] = "dup",
    [BOOK_CONTROL] = "control",
    [BOOK_HEAP] = "heap",
    [BOOK_ALLOC_MEMORY] = "alloc_memory",
    [BOOK_XFER] = "xfer",
    [BOOK_OTHER] = "other",
    [BOOK_UVM_MAP] = "uvm_map",
    [BOOK_UVM_UNMAP] = "uvm_unmap",
    [BOOK_UVM_FREE] = "uvm_free",
    [BOOK_UVM_OTHER] = "uvm_other",
    [BOOK_MALFORMED] = "malformed",
};

static struct account *accounts[BUCKETS];

struct account *book_account(pid_t pid)
{
    struct account **at = &accounts[(unsigned)pid % BUCKETS];

    while (*at && (*at)->pid != pid)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (!*at)
            abort();
        (*at)->pid = pid;
    }
    return *at;
}

uint64_t book_bytes(const struct account *account, unsigned gpu)
{
    return account->gpu[gpu].private + account->gpu[gpu].owned;
}

static void write_gpu(FILE *out, unsigned index)
{
    const struct gpu *gpu = &gpus[index];

    fprintf(out, "gpu %u uuid GPU-", index);
    for (unsigned i = 0; i < 16; i++)
        fprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", gpu->uuid[i]);
    fprintf(out,
            " size %" PRIu64 " used %" PRIu64 " peak %" PRIu64 " nobody %" PRIu64
            " allocations %" PRIu64 " refused %" PRIu64 " biggest %" PRIu64 " busy_ns %" PRIu64
            " switches %" PRIu64 " channels %u channels_disabled %u wedged %u now_ns %" PRIu64 "\n",
            settings.mem_bytes, gpu->used, gpu->peak, book_bytes(book_account(0), index),
            gpu->allocations, gpu->refused, gpu->biggest, gpu->busy_ns, gpu->switches,
            gpu->channels, gpu->channels_disabled, gpu->wedged, gpu->now_ns);
}

static void write_account(FILE *out, const struct account *account)
{
    for (unsigned gpu = 0; gpu < settings.gpus; gpu++) {
        if (account->gpu[gpu].peak == 0 && account->gpu[gpu].busy_ns == 0 &&
            (gpu || !account->clients))
            continue;
        fprintf(out,
                "process %d gpu %u bytes %" PRIu64 " peak %" PRIu64 " private %" PRIu64
                " owned %" PRIu64 " duped %" PRIu64 " allocations %" PRIu64 " busy_ns %" PRIu64
                " clients %u\n",
                (int)account->pid, gpu, book_bytes(account, gpu), account->gpu[gpu].peak,
                account->gpu[gpu].private, account->gpu[gpu].owned, account->gpu[gpu].duped,
                account->gpu[gpu].allocations, account->gpu[gpu].busy_ns, account->clients);
    }
}

void book_write(FILE *out)
{
    fprintf(out, "driver %s\n", settings.version);
    for (unsigned i = 0; i < settings.gpus; i++)
        write_gpu(out, i);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (const struct account *account = accounts[i]; account; account = account->next)
            if (account->pid)
                write_account(out, account);
    fprintf(out, "calls");
    for (unsigned i = 0; i < BOOK_CALLS; i++)
        fprintf(out, " %s %" PRIu64, call_names[i], book.calls[i]);
    fprintf(out,
            "\ntotal clients %u objects %u files %u last_allocation_pid %d disable_calls %" PRIu64
            " enable_calls %" PRIu64 "\n",
            book.clients, book.objects, book.files, (int)book.last_allocation_pid,
            book.disable_calls, book.enable_calls);
}

void book_reset(void)
{
    for (unsigned i = 0; i < settings.gpus; i++) {
        gpus[i].peak = gpus[i].used;
        gpus[i].biggest = gpus[i].allocations = gpus[i].refused = gpus[i].switches = 0;
        gpus[i].wedged = 0;
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct account *account = accounts[i]; account; account = account->next)
            for (unsigned gpu = 0; gpu < settings.gpus; gpu++) {
                account->gpu[gpu].peak = book_bytes(account, gpu);
                account->gpu[gpu].allocations = 0;
            }
    for (unsigned i = 0; i < BOOK_CALLS; i++)
        book.calls[i] = 0;
    book.disable_calls = book.enable_calls = 0;
    book.last_allocation_pid = 0;
}

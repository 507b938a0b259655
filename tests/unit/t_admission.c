/* The order that every allocation path keeps, for each class of memory; the test is the driver. */
#include "unit.h"

#include "hook/memory/admission.h"
#include "hook/memory/reconcile.h"
#include "hook/memory/shared.h"
#include "hook/loader/trace.h"

#include <errno.h>

#define QUOTA   (64 * MIB)
#define WANTED  (3 * MIB + 1) /* no whole number of blocks */
#define KEY     0x7000000000u
#define CONTEXT ((CUcontext)0x1000)

void *hook_real[SYMBOL_COUNT];
atomic_bool trace_enabled;

static struct vgpu_region *region;
static struct vgpu_ledger *ledger;
static CUcontext current;
static unsigned frees;           /* by the driver */
static uint64_t freed_key;       /* the last of them */
static uint64_t used_when_freed; /* what the region showed then */
static int frees_under_way;      /* that reconciliation knows of */

/* What admission.c stands on. */

struct vgpu_ledger *hook_ledger(void)
{
    return ledger;
}

const char *hook_symbol_name(enum hook_symbol sym)
{
    return sym == SYMBOL_cuMemAlloc_v2 ? "cuMemAlloc_v2" : "other";
}

int device_current(CUdevice *ret_device, unsigned *ret_vdev)
{
    *ret_device = 0;
    *ret_vdev = 0;
    return current != NULL ? 0 : -ENODEV;
}

void trace_memory_slow(enum hook_symbol sym, uint64_t bytes, uint64_t address, CUresult result)
{
    (void)sym, (void)bytes, (void)address, (void)result;
}

void reconcile_free_begin(void)
{
    frees_under_way++;
}

void reconcile_free_end(void)
{
    frees_under_way--;
}

void reconcile_maybe(unsigned vdev)
{
    (void)vdev;
}

int reconcile_now(unsigned vdev)
{
    (void)vdev;
    return -ENODATA;
}

void shared_sweep(struct vgpu_ledger *of)
{
    (void)of;
}

/* The driver */

static CUresult get_current(CUcontext *ret_context)
{
    *ret_context = current;
    return CUDA_SUCCESS;
}

static CUresult free_key(uint64_t key)
{
    frees++;
    freed_key = key;
    used_when_freed = snapshot_used(region);
    return CUDA_SUCCESS;
}

#define X(class, kind, table, step, undo, type)                                                    \
    static CUresult free_##class(type key)                                                         \
    {                                                                                              \
        return free_key((uint64_t)key);                                                            \
    }
MEM_CLASSES(X)
#undef X

static const struct {
    enum mem_class class;
    enum vgpu_kind kind;
    enum record_table table;
    uint64_t step_bytes;
    enum hook_symbol undo;
    void *free;
} rows[] = {
#define X(class, kind, table, step, undo, type)                                                    \
    {MEM_##class, kind, table, step, SYMBOL_##undo, (void *)free_##class},
    MEM_CLASSES(X)
#undef X
};

#define EACH_ROW(row) for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)

static CUresult allocate(CUdeviceptr *ret_address, size_t bytes)
{
    (void)bytes;
    if (ret_address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_address = KEY;
    return CUDA_SUCCESS;
}

static CUresult free_v1(CUdeviceptr_v1 address)
{
    return free_key(address);
}

static int setup(void **state)
{
    (void)state;
    region = new_region("admission", QUOTA);
    hook_real[SYMBOL_cuCtxGetCurrent] = (void *)get_current;
    hook_real[SYMBOL_cuMemAlloc_v2] = (void *)allocate;
    hook_real[SYMBOL_cuMemFree] = (void *)free_v1;
    EACH_ROW(row)
    hook_real[rows[row].undo] = rows[row].free;
    current = CONTEXT;
    frees = 0;
    return ledger_new(region, 0, &ledger);
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(frees_under_way, 0);
    ledger_free(ledger);
    region_close(region);
    return 0;
}

static unsigned vdev_of(unsigned row)
{
    return rows[row].kind == VGPU_KIND_HOST ? VGPU_VDEV_HOST : 0;
}

static uint64_t used(unsigned row)
{
    struct vgpu_snapshot snapshot;
    uint64_t bytes;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    bytes = snapshot.vdev[vdev_of(row)].used_bytes;
    snapshot_done(&snapshot);
    return bytes;
}

static uint64_t held(unsigned row)
{
    return ledger_held(ledger, vdev_of(row), rows[row].kind);
}

static void admitted(unsigned row, uint64_t bytes, struct admission *ret_admission)
{
    assert_int_equal(mem_admit(SYMBOL_cuMemAlloc_v2, rows[row].class, bytes, ret_admission),
                     CUDA_SUCCESS);
}

/* A whole allocation. */
static void have(unsigned row, uint64_t key, uint64_t bytes)
{
    struct admission admission;

    admitted(row, bytes, &admission);
    assert_int_equal(mem_settle(&admission, CUDA_SUCCESS, key, bytes), CUDA_SUCCESS);
}

TEST(takes_and_gives_back, setup, teardown)
{
    EACH_ROW(row)
    {
        bool blocks = rows[row].table == RECORDS_POINTERS;
        struct admission admission;
        struct mem_free freeing;

        admitted(row, WANTED, &admission);
        assert_int_equal(used(row), mem_round(WANTED, rows[row].step_bytes));
        assert_int_equal(held(row), 0);
        assert_int_equal(mem_settle(&admission, CUDA_SUCCESS, KEY, WANTED), CUDA_SUCCESS);
        assert_int_equal(held(row), blocks ? mem_round(WANTED, MEM_BLOCK_BYTES) : WANTED);
        assert_int_equal(used(row), held(row));
        assert_true(mem_free_begin(rows[row].class, KEY, &freeing));
        assert_int_equal(freeing.entry.bytes, WANTED);
        assert_true(used(row) > 0); /* until the driver has freed it */
        mem_free_end(&freeing, CUDA_SUCCESS);
        assert_int_equal(used(row), 0);
        assert_false(mem_free_begin(rows[row].class, KEY, &freeing));
    }
    assert_int_equal(frees, 0);
}

TEST(driver_fails, setup, teardown)
{
    EACH_ROW(row)
    {
        struct admission admission;
        struct mem_free freeing;

        admitted(row, WANTED, &admission);
        assert_int_equal(mem_settle(&admission, CUDA_ERROR_INVALID_VALUE, 0, WANTED),
                         CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(used(row), 0);
        have(row, KEY, WANTED);
        assert_true(mem_free_begin(rows[row].class, KEY, &freeing));
        mem_free_end(&freeing, CUDA_ERROR_INVALID_VALUE);
        assert_true(mem_free_begin(rows[row].class, KEY, &freeing)); /* it is there still */
        mem_free_end(&freeing, CUDA_SUCCESS);
        assert_int_equal(used(row), 0);
    }
}

TEST(over_the_quota, setup, teardown)
{
    EACH_ROW(row)
    {
        struct admission admission;

        if (rows[row].kind == VGPU_KIND_HOST) /* it has none */
            continue;
        assert_int_equal(mem_admit(SYMBOL_cuMemAlloc_v2, rows[row].class, QUOTA + 1, &admission),
                         CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(mem_settle(&admission, CUDA_ERROR_OUT_OF_MEMORY, 0, QUOTA + 1),
                         CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(used(row), 0);
        have(row, KEY, QUOTA);
        assert_int_equal(mem_admit(SYMBOL_cuMemAlloc_v2, rows[row].class, 1, &admission),
                         CUDA_ERROR_OUT_OF_MEMORY);
        mem_context_gone(CONTEXT);
        assert_int_equal(used(row), 0);
    }
    assert_int_equal(frees, 0);
}

/* The driver frees it while the reservation stands: nobody is admitted to what it still holds. */
TEST(takes_more_than_fits, setup, teardown)
{
    EACH_ROW(row)
    {
        struct admission admission;
        struct mem_free freeing;

        if (rows[row].kind == VGPU_KIND_HOST)
            continue;
        frees = 0;
        admitted(row, WANTED, &admission);
        assert_int_equal(mem_settle(&admission, CUDA_SUCCESS, KEY, QUOTA + 1),
                         CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(frees, 1);
        assert_int_equal(freed_key, KEY);
        assert_int_equal(used_when_freed, mem_round(WANTED, rows[row].step_bytes));
        assert_int_equal(used(row), 0);
        assert_int_equal(held(row), 0);
        assert_false(mem_free_begin(rows[row].class, KEY, &freeing));
    }
}

TEST(goes_with_its_context, setup, teardown)
{
    EACH_ROW(row)
    {
        have(row, KEY, WANTED);
        current = (CUcontext)0x2000;
        have(row, KEY + GIB, WANTED);
        current = CONTEXT;
        mem_context_gone(CONTEXT);
        assert_int_equal(
            held(row),
            mem_round(WANTED, rows[row].table == RECORDS_POINTERS ? MEM_BLOCK_BYTES : 1));
        mem_context_gone((CUcontext)0x2000);
        assert_int_equal(used(row), 0);
    }
}

/* A key that is recorded still: its memory was freed in a way that nobody saw. */
TEST(key_given_out_again, setup, teardown)
{
    EACH_ROW(row)
    {
        have(row, KEY, 8 * MIB);
        have(row, KEY, 4 * MIB);
        assert_int_equal(held(row), 4 * MIB);
        mem_context_gone(CONTEXT);
        assert_int_equal(used(row), 0);
    }
}

TEST(charges_nothing, setup, teardown)
{
    struct admission admission;

    EACH_ROW(row)
    {
        admitted(row, 0, &admission);
        assert_null(admission.ledger);
        admitted(row, MEM_LIMIT_BYTES + 1, &admission);
        assert_null(admission.ledger);
        if (rows[row].kind == VGPU_KIND_HOST)
            continue;
        current = NULL;
        admitted(row, WANTED, &admission);
        assert_null(admission.ledger);
        current = CONTEXT;
    }
    assert_int_equal(mem_settle(&admission, CUDA_SUCCESS, KEY, WANTED), CUDA_SUCCESS);
    assert_int_equal(snapshot_used(region), 0);
}

/* A path is its class and a line each for its calls. */
ALLOCATE(mem_alloc, MEM_DATA, dptr, bytes, bytes)
FREE(mem_free_v1, MEM_DATA, dptr)

TEST(path_of_two_lines, setup, teardown)
{
    CUdeviceptr address = 1;

    assert_int_equal(hook_mem_alloc(SYMBOL_cuMemAlloc_v2, &address, QUOTA + 1),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(address, 1);
    assert_int_equal(hook_mem_alloc(SYMBOL_cuMemAlloc_v2, &address, WANTED), CUDA_SUCCESS);
    assert_int_equal(address, KEY);
    assert_int_equal(snapshot_used(region), 4 * MIB);
    assert_int_equal(hook_mem_alloc(SYMBOL_cuMemAlloc_v2, NULL, WANTED), CUDA_ERROR_INVALID_VALUE);
    mem_context_gone(CONTEXT);
    assert_int_equal(snapshot_used(region), 0);
    assert_int_equal(hook_mem_free_v1(SYMBOL_cuMemFree, 0x1000), CUDA_SUCCESS);
    assert_int_equal(freed_key, 0x1000);
}

static int in_child(void *arg)
{
    struct mem_free freeing;

    CHECK(!mem_free_begin(*(enum mem_class *)arg, KEY, &freeing));
    CHECK(ledger_held(ledger, 0, VGPU_KINDS) == 0);
    return 0;
}

TEST(child_starts_empty, setup, teardown)
{
    EACH_ROW(row)
    {
        enum mem_class class = rows[row].class;

        have(row, KEY, WANTED);
        assert_int_equal(finish(spawn(in_child, &class)), 0);
        assert_true(held(row) > 0);
        mem_context_gone(CONTEXT);
    }
}

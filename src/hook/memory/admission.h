/*
 * Admission: the one way by which a call gets memory, and gives it back. Every path keeps this
 * order:
 *
 *     mem_admit()         sets aside in the quota the most that the call can take, or refuses it
 *       the driver allocates
 *     mem_settle()        charges what the driver took, records it under its handle, and gives the
 *                         rest of the reservation back; what does not fit after all it frees again
 *
 *     mem_free_begin()    takes the record out: another thread may get the same handle at once
 *       the driver frees
 *     mem_free_end()      gives the quota back, or puts the record back where the driver failed
 *
 * So the quota has each byte before the driver has it, and until the driver has freed it. Whatever
 * another process reads meanwhile is never too low. A process killed at any point leaves only what
 * its slot in the region lists, which goes with the slot. A row of driver.def with CANCEL_DISABLE
 * keeps the thread from being cancelled in between. A forked child starts with empty records and a
 * ledger of its own.
 *
 * Memory whose size the driver decides keeps the same order by driver_sized_begin() and
 * driver_sized_end(); contexts, which are measured, by context_admit() and context_settle(). Both
 * stand on what is declared here.
 *
 * Everything here is thread-safe, keeps errno and holds no lock across a call into the driver.
 */
#ifndef VGPU_HOOK_MEMORY_ADMISSION_H
#define VGPU_HOOK_MEMORY_ADMISSION_H

#include "hook/loader/hook.h"
#include "hook/memory/records.h"

#define MEM_BLOCK_BYTES (2ULL << 20) /* what the driver takes device memory in */
/* No memory is that large: such a request is the driver's to refuse. */
#define MEM_LIMIT_BYTES (1ULL << 52)

static inline uint64_t mem_round(uint64_t bytes, uint64_t step_bytes)
{
    return (bytes + step_bytes - 1) / step_bytes * step_bytes;
}

/*
 * The classes of memory that is admitted: what it is charged as, where it is recorded, and the
 * steps in which it is reserved. Then the driver's function that frees it, and the type of its
 * argument.
 */
#define MEM_CLASSES(X)                                                                             \
    X(DATA, VGPU_KIND_DATA, RECORDS_POINTERS, MEM_BLOCK_BYTES, cuMemFree_v2, CUdeviceptr)          \
    X(MANAGED, VGPU_KIND_MANAGED, RECORDS_POINTERS, MEM_BLOCK_BYTES, cuMemFree_v2, CUdeviceptr)    \
    X(HOST, VGPU_KIND_HOST, RECORDS_HOST, 1, cuMemFreeHost, void *)                                \
    X(REGISTERED, VGPU_KIND_HOST, RECORDS_HOST, 1, cuMemHostUnregister, void *)                    \
    X(ARRAY, VGPU_KIND_DATA, RECORDS_ARRAYS, MEM_BLOCK_BYTES, cuArrayDestroy, CUarray)             \
    X(MIPMAP, VGPU_KIND_DATA, RECORDS_ARRAYS, MEM_BLOCK_BYTES, cuMipmappedArrayDestroy,            \
      CUmipmappedArray)                                                                            \
    X(EXTERNAL, VGPU_KIND_EXTERNAL, RECORDS_EXTERNAL, 1, cuDestroyExternalMemory,                  \
      CUexternalMemory)                                                                            \
    X(MODULE, VGPU_KIND_MODULE, RECORDS_MODULES, MEM_BLOCK_BYTES, cuModuleUnload, CUmodule)        \
    X(LIBRARY, VGPU_KIND_MODULE, RECORDS_MODULES, MEM_BLOCK_BYTES, cuLibraryUnload, CUlibrary)

/* Those that their callers record and free: for mem_admit_on() and mem_commit() only. */
#define MEM_UNRECORDED_CLASSES(X)                                                                  \
    X(PHYSICAL, VGPU_KIND_DATA)                                                                    \
    X(CONTEXT, VGPU_KIND_CONTEXT)

enum mem_class {
#define X(class, ...) MEM_##class,
    MEM_CLASSES(X) MEM_UNRECORDED_CLASSES(X)
#undef X
};

struct admission {
    struct vgpu_ledger *ledger; /* NULL: nothing is charged, the driver alone answers */
    enum hook_symbol sym;
    enum mem_class class;
    unsigned vdev;
    uint64_t reserved_bytes;
};

/*
 * Admits `bytes` on the device of the calling thread's context. Where they do not fit, what the
 * driver freed unseen is looked for first. CUDA_ERROR_OUT_OF_MEMORY: they still do not fit, and the
 * refusal of `sym` is recorded. Nothing is charged where the driver is going to fail: without
 * bytes, with too many, without a context.
 */
CUresult mem_admit(enum hook_symbol sym, enum mem_class class, uint64_t bytes,
                   struct admission *ret_admission);

/* The same on a vdev, of any size. */
CUresult mem_admit_on(enum hook_symbol sym, enum mem_class class, unsigned vdev, uint64_t bytes,
                      struct admission *ret_admission);

/*
 * After the driver, or in its place after a refusal: `result` is what either said, `key` and
 * `bytes` what the driver made. Returns what the program gets: CUDA_ERROR_OUT_OF_MEMORY where the
 * driver took more than was reserved and the quota has no room for that, or there is no memory for
 * the record; the driver has freed it again then. Memory in RECORDS_POINTERS is charged by the
 * blocks of [key, key + bytes) that nothing else is in.
 */
CUresult mem_settle(const struct admission *admission, CUresult result, uint64_t key,
                    uint64_t bytes);

/* The parts of mem_settle(), for memory that its caller records. mem_commit() false: no room, and
 * the reservation stands; the caller undoes the allocation and calls mem_refuse(). */
bool mem_commit(const struct admission *admission, uint64_t bytes);
void mem_cancel(const struct admission *admission);
void mem_refuse(const struct admission *admission, uint64_t bytes);

struct mem_free {
    enum mem_class class;
    bool known; /* false: nothing is recorded under `key` */
    uint64_t key;
    struct vgpu_track_entry entry; /* zero where nothing is */
};

/* Returns `known`. */
bool mem_free_begin(enum mem_class class, uint64_t key, struct mem_free *ret_free);
void mem_free_end(const struct mem_free *freeing, CUresult result);

/* False: nothing is recorded in RECORDS_POINTERS for sure. Two loads, for paths that cannot afford
 * to look. */
extern _Atomic uint64_t mem_lowest_pointer, mem_highest_pointer;

static inline bool mem_pointer_possible(uint64_t address)
{
    return address >= atomic_load_explicit(&mem_lowest_pointer, memory_order_relaxed) &&
           address <= atomic_load_explicit(&mem_highest_pointer, memory_order_relaxed);
}

/* granule_note() of a record in RECORDS_POINTERS. What the note is for gets the charge in place of
 * the ledger: see struct memory_source. */
void *mem_note(uint64_t key, const struct vgpu_track_entry *entry, void *note);

/* Brings the ledger up to what the driver holds now. */
void mem_refresh(unsigned vdev);

/*
 * Reserves after a first try failed: refreshes, then has the driver let go of what nothing uses, as
 * it does itself when the device is full. Records no refusal.
 */
bool mem_make_room(unsigned vdev, uint64_t bytes);

/*
 * The driver has destroyed a context (or reset it, or somebody released it for the last time), and
 * with it what was allocated in there: gives all of that back.
 */
void mem_context_gone(CUcontext context);

/*
 * The handler of a call that allocates `bytes` into *ret, a parameter of it; the driver gets the
 * address of a variable and the rest of the arguments.
 */
#define ALLOCATE(handler, class, ret, bytes, ...)                                                  \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        uint64_t wanted = (bytes);                                                                 \
        struct admission admission;                                                                \
        __typeof__(*ret) made = 0;                                                                 \
        CUresult result;                                                                           \
                                                                                                   \
        if (ret == NULL)                                                                           \
            return FORWARD(sym, handler);                                                          \
        result = mem_admit(sym, class, wanted, &admission);                                        \
        if (result == CUDA_SUCCESS)                                                                \
            result = REAL(sym, handler)(&made, __VA_ARGS__);                                       \
        result = mem_settle(&admission, result, (uintptr_t)made, wanted);                          \
        if (result == CUDA_SUCCESS)                                                                \
            *ret = made;                                                                           \
        trace_memory(sym, wanted, (uintptr_t)made, result);                                        \
        return result;                                                                             \
    }

/* The handler of a call that frees what is recorded under a parameter of it. */
#define FREE(handler, class, key)                                                                  \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        struct mem_free freeing;                                                                   \
        CUresult result;                                                                           \
                                                                                                   \
        mem_free_begin(class, (uintptr_t)key, &freeing);                                           \
        result = FORWARD(sym, handler);                                                            \
        mem_free_end(&freeing, result);                                                            \
        trace_memory(sym, freeing.entry.bytes, (uintptr_t)key, result);                            \
        return result;                                                                             \
    }

#endif

#include "hook/loader/symbols.h"

#include "base/cleanup.h"
#include "hook/loader/elf.h"
#include "hook/loader/hook.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

void *hook_real[SYMBOL_COUNT];
void *nvml_real[NVML_SYMBOL_COUNT];

/*
 * The table of names holds offsets. The loader would have to relocate pointers in every process
 * that loads vgpu, and most processes never use them.
 */
static const struct name_text {
#define HOOK(sym, handler) char sym[sizeof(#sym)];
#define PASS(sym)          char sym[sizeof(#sym)];
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS
} name_text = {
#define HOOK(sym, handler) #sym,
#define PASS(sym)          #sym,
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS
};

static const uint16_t name_offset[ENTRY_COUNT] = {
#define HOOK(sym, handler) offsetof(struct name_text, sym),
#define PASS(sym)          offsetof(struct name_text, sym),
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS
};
_Static_assert(sizeof(name_text) <= UINT16_MAX, "name_offset would wrap");

/*
 * A hash index with open addressing. Every thread that finds it unfinished fills it, in the same
 * order and with the same values. A second thread writes what is there already, so no thread waits
 * for another.
 */
#define INDEX_SLOTS 4096 /* a power of two, several times ENTRY_COUNT */
_Static_assert(ENTRY_COUNT * 4 <= INDEX_SLOTS, "the indices would get crowded");

struct index {
    _Atomic uint16_t slot[INDEX_SLOTS]; /* entry + 1; 0: free */
};

static void index_add(struct index *index, uint32_t hash, int entry)
{
    uint16_t value = (uint16_t)(entry + 1);

    for (uint32_t at = hash % INDEX_SLOTS;; at = (at + 1) % INDEX_SLOTS) {
        uint16_t there = atomic_load_explicit(&index->slot[at], memory_order_relaxed);

        if (there == value)
            return;
        if (there == 0) {
            atomic_store_explicit(&index->slot[at], value, memory_order_relaxed);
            return;
        }
    }
}

static uint32_t name_hash(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash ^ hash >> 15;
}

static uint32_t address_hash(const void *address)
{
    return (uint32_t)(((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static struct index by_name;
static atomic_bool by_name_ready;

static bool name_may_match(const char *name)
{
    const char *rest;

    if (name[0] == 'c' && name[1] == 'u')
        rest = name + 2;
    else if (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l')
        rest = name + 4;
    else
        return false;
    return *rest >= 'A' && *rest <= 'Z';
}

int symbols_find(const char *name)
{
    if (!name_may_match(name))
        return ENTRY_NONE;
    if (!atomic_load_explicit(&by_name_ready, memory_order_acquire)) {
        for (int entry = 0; entry < ENTRY_COUNT; entry++)
            index_add(&by_name, name_hash(symbols_name(entry)), entry);
        atomic_store_explicit(&by_name_ready, true, memory_order_release);
    }
    for (uint32_t at = name_hash(name) % INDEX_SLOTS;; at = (at + 1) % INDEX_SLOTS) {
        uint16_t there = atomic_load_explicit(&by_name.slot[at], memory_order_relaxed);

        if (there == 0)
            return ENTRY_NONE;
        if (strcmp(symbols_name(there - 1), name) == 0)
            return there - 1;
    }
}

static struct library {
    const char *soname;
    void **real;
    int first, count; /* entries */
    atomic_bool ready;
    _Atomic uintptr_t start, end;
    struct index by_address;
} libraries[LIBRARY_COUNT] = {
    [LIBRARY_CUDA] = {.soname = "libcuda.so.1",
                      .real = hook_real,
                      .first = 0,
                      .count = SYMBOL_COUNT},
    [LIBRARY_NVML] = {.soname = "libnvidia-ml.so.1",
                      .real = nvml_real,
                      .first = SYMBOL_COUNT,
                      .count = NVML_SYMBOL_COUNT},
};

enum symbols_library symbols_library_of(int entry)
{
    return entry < (int)SYMBOL_COUNT ? LIBRARY_CUDA : LIBRARY_NVML;
}

const char *symbols_soname(enum symbols_library library)
{
    return libraries[library].soname;
}

const char *symbols_name(int entry)
{
    return (const char *)&name_text + name_offset[entry];
}

const char *hook_symbol_name(enum hook_symbol sym)
{
    return symbols_name((int)sym);
}

void *symbols_real(int entry)
{
    struct library *library = &libraries[symbols_library_of(entry)];

    return __atomic_load_n(&library->real[entry - library->first], __ATOMIC_RELAXED);
}

/* Can run in several threads at once: see struct index. */
static void fill(struct library *library, const struct elf_scope *scope)
{
    for (int i = 0; i < library->count; i++) {
        void *address = elf_scope_symbol(scope, symbols_name(library->first + i));

        if (__atomic_load_n(&library->real[i], __ATOMIC_RELAXED) != address)
            __atomic_store_n(&library->real[i], address, __ATOMIC_RELAXED);
        if (address)
            index_add(&library->by_address, address_hash(address), library->first + i);
    }
    atomic_store_explicit(&library->start, scope->object[0].start, memory_order_relaxed);
    atomic_store_explicit(&library->end, scope->object[0].end, memory_order_relaxed);
}

bool symbols_resolve(enum symbols_library which)
{
    struct library *library = &libraries[which];
    struct elf_scope scope;

    if (atomic_load_explicit(&library->ready, memory_order_acquire))
        return true;
    KEEP_ERRNO;
    /* vgpu keeps the reference, so that the addresses stay valid. The library is loaded already, so
       dlerror() does not change. */
    if (!elf_find_scope(library->soname, &scope) ||
        !dlopen(library->soname, RTLD_LAZY | RTLD_NOLOAD))
        return false;
    fill(library, &scope);
    atomic_store_explicit(&library->ready, true, memory_order_release);
    return true;
}

int symbols_at_address(const void *address)
{
    for (int which = 0; which < LIBRARY_COUNT; which++) {
        struct library *library = &libraries[which];

        if (!atomic_load_explicit(&library->ready, memory_order_acquire))
            continue;
        for (uint32_t at = address_hash(address) % INDEX_SLOTS;; at = (at + 1) % INDEX_SLOTS) {
            uint16_t there =
                atomic_load_explicit(&library->by_address.slot[at], memory_order_relaxed);

            if (there == 0)
                break;
            if (library->real[there - 1 - library->first] == address)
                return there - 1;
        }
    }
    return ENTRY_NONE;
}

bool symbols_in_driver(const void *address)
{
    for (int which = 0; which < LIBRARY_COUNT; which++) {
        uintptr_t start = atomic_load_explicit(&libraries[which].start, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&libraries[which].end, memory_order_relaxed);

        if ((uintptr_t)address >= start && (uintptr_t)address < end)
            return true;
    }
    return false;
}

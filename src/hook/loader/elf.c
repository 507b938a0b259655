#include "hook/loader/elf.h"

#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>

/* Weak: a loader without it (musl's) is to load this library all the same. */
#pragma weak _r_debug

#define VERSION_HIDDEN 0x8000 /* of a DT_VERSYM entry: not the default version */

/* glibc has relocated the pointers of most dynamic sections in place; the others are offsets. */
static const void *table_at(uintptr_t base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : (uintptr_t)value);
}

/* strcmp may be a sanitizer's that does not work yet. */
static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct elf_object *ret_object)
{
    struct elf_object object = {.base = base, .dynamic = dynamic};
    size_t soname = 0;

    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const void *table = table_at(object.base, dynamic->d_un.d_ptr);

        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            object.symbols = table;
            break;
        case DT_STRTAB:
            object.strings = table;
            break;
        case DT_VERSYM:
            object.versions = table;
            break;
        case DT_GNU_HASH:
            object.gnu_hash = table;
            break;
        case DT_HASH:
            object.hash = table;
            break;
        case DT_SONAME:
            soname = dynamic->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (!object.symbols || !object.strings || (!object.gnu_hash && !object.hash))
        return false;
    object.soname = soname ? object.strings + soname : "";
    *ret_object = object;
    return true;
}

/* An object of dl_iterate_phdr(), with its extent. */
static bool object_read_info(const struct dl_phdr_info *info, struct elf_object *ret_object)
{
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t first = UINTPTR_MAX, last = 0;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

        if (part->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)start;
        if (part->p_type != PT_LOAD)
            continue;
        first = start < first ? start : first;
        last = end > last ? end : last;
    }
    if (!dynamic || !object_read(info->dlpi_addr, dynamic, ret_object))
        return false;
    ret_object->start = first;
    ret_object->end = last;
    return true;
}

/* What a lookup has found so far. A default version ends it; any other is kept in case there is
 * none. */
struct match {
    void *address;
    bool settled;
};

static void consider(const struct elf_object *object, uint32_t index, const char *name,
                     struct match *match)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    bool hidden = object->versions && (object->versions[index] & VERSION_HIDDEN);

    if (match->settled || symbol->st_shndx == SHN_UNDEF ||
        (type != STT_FUNC && type != STT_NOTYPE) ||
        !same_text(object->strings + symbol->st_name, name))
        return;
    if (!match->address || !hidden)
        match->address = (void *)(object->base + symbol->st_value);
    match->settled = !hidden;
}

static void search_gnu(const struct elf_object *object, const char *name, struct match *match)
{
    const uint32_t bucket_count = object->gnu_hash[0], first = object->gnu_hash[1],
                   bloom_words = object->gnu_hash[2];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(object->gnu_hash + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + bloom_words),
                   *chain = buckets + bucket_count;
    uint32_t hash = 5381, index;

    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    index = bucket_count ? buckets[hash % bucket_count] : 0;
    if (index < first || index == 0)
        return;
    for (;; index++) {
        uint32_t entry = chain[index - first];

        if ((entry | 1) == (hash | 1))
            consider(object, index, name, match);
        if (entry & 1)
            return;
    }
}

static void search_sysv(const struct elf_object *object, const char *name, struct match *match)
{
    const uint32_t bucket_count = object->hash[0], *buckets = object->hash + 2,
                   *chain = buckets + bucket_count;
    uint32_t hash = 0;

    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    if (!bucket_count)
        return;
    for (uint32_t index = buckets[hash % bucket_count]; index != STN_UNDEF; index = chain[index])
        consider(object, index, name, match);
}

void *elf_object_symbol(const struct elf_object *object, const char *symbol)
{
    struct match match = {0};

    if (object->gnu_hash)
        search_gnu(object, symbol, &match);
    else
        search_sysv(object, symbol, &match);
    return match.address;
}

static bool holds(const struct dl_phdr_info *info, const void *address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD &&
            (uintptr_t)address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

bool elf_read_image(const void *image, struct elf_object *ret_object)
{
    const ElfW(Ehdr) *header = image;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)((const char *)image + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t base = 0;
    bool based = false;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && !based) {
            base = (uintptr_t)image - (part[i].p_vaddr - part[i].p_offset);
            based = true;
        }
        if (part[i].p_type == PT_DYNAMIC && based)
            dynamic = (const ElfW(Dyn) *)(base + part[i].p_vaddr);
    }
    return dynamic && object_read(base, dynamic, ret_object);
}

struct by_soname {
    const char *soname;
    struct elf_object object;
};

static int match_soname(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct by_soname *search = arg;

    (void)size;
    return object_read_info(info, &search->object) &&
           same_text(search->object.soname, search->soname);
}

static bool elf_find(const char *soname, struct elf_object *ret_object)
{
    struct by_soname search = {.soname = soname};

    if (!dl_iterate_phdr(match_soname, &search))
        return false;
    *ret_object = search.object;
    return true;
}

static void add_needed(struct elf_scope *scope, const char *soname)
{
    for (unsigned i = 0; i < scope->count; i++) {
        if (same_text(scope->object[i].soname, soname))
            return;
    }
    if (scope->count < ELF_SCOPE && elf_find(soname, &scope->object[scope->count]))
        scope->count++;
}

bool elf_find_scope(const char *soname, struct elf_scope *ret_scope)
{
    ret_scope->count = 0;
    add_needed(ret_scope, soname);
    for (unsigned i = 0; i < ret_scope->count; i++) {
        const struct elf_object *object = &ret_scope->object[i];

        for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_NEEDED)
                add_needed(ret_scope, object->strings + entry->d_un.d_val);
        }
    }
    return ret_scope->count > 0;
}

void *elf_scope_symbol(const struct elf_scope *scope, const char *symbol)
{
    void *found = NULL;

    for (unsigned i = 0; i < scope->count && !found; i++)
        found = elf_object_symbol(&scope->object[i], symbol);
    return found;
}

bool elf_find_at_start(const char *soname, struct elf_object *ret_object)
{
    struct elf_object object;

    for (const struct link_map *at = &_r_debug ? _r_debug.r_map : NULL; at; at = at->l_next) {
        if (at->l_ld && object_read(at->l_addr, at->l_ld, &object) &&
            same_text(object.soname, soname)) {
            *ret_object = object;
            return true;
        }
    }
    return false;
}

void *elf_behind_us_at_start(const char *symbol)
{
    bool passed = false;
    struct elf_object object;

    for (const struct link_map *at = &_r_debug ? _r_debug.r_map : NULL; at; at = at->l_next) {
        void *found = NULL;

        if (at->l_ld == _DYNAMIC)
            passed = true;
        else if (passed && at->l_ld && object_read(at->l_addr, at->l_ld, &object))
            found = elf_object_symbol(&object, symbol);
        if (found)
            return found;
    }
    return NULL;
}

struct by_order {
    const void *address;
    const char *symbol;
    bool passed; /* the object with `address` has been met */
    void *found;
};

static int match_next(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct by_order *search = arg;
    struct elf_object object;

    (void)size;
    if (!search->passed)
        search->passed = holds(info, search->address);
    else if (object_read_info(info, &object))
        search->found = elf_object_symbol(&object, search->symbol);
    return search->found != NULL;
}

void *elf_first_symbol(const char *symbol)
{
    struct by_order search = {.symbol = symbol, .passed = true};

    dl_iterate_phdr(match_next, &search);
    return search.found;
}

void *elf_next_symbol(const void *address, const char *symbol)
{
    struct by_order search = {.address = address, .symbol = symbol};

    dl_iterate_phdr(match_next, &search);
    return search.found;
}

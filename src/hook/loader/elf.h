/*
 * Symbols of loaded objects, read from their own dynamic tables. dlsym cannot be asked for them: it
 * is vgpu's own here. Thread-safe (the loader's lock is held while its list is walked). No
 * allocation.
 */
#ifndef VGPU_HOOK_LOADER_ELF_H
#define VGPU_HOOK_LOADER_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* One object's dynamic tables, valid as long as the object stays loaded. */
struct elf_object {
    uintptr_t base;
    uintptr_t start, end; /* of its mapping */
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions; /* NULL: its symbols have no versions */
    const uint32_t *gnu_hash;    /* one of the two is there */
    const uint32_t *hash;
    const char *soname; /* "": it has none */
    const ElfW(Dyn) * dynamic;
};

/* An object, the objects that it needs, those that these need, and so on: where dlsym() looks with
 * its handle. */
#define ELF_SCOPE 16
struct elf_scope {
    struct elf_object object[ELF_SCOPE]; /* first itself; what does not fit is left out */
    unsigned count;
};

/* The loaded object whose DT_SONAME is `soname`, wherever it was loaded from, by any name, and the
 * objects that it needs. */
bool elf_find_scope(const char *soname, struct elf_scope *ret_scope);

/* The function `symbol` in the first object of a scope that defines it; NULL. */
void *elf_scope_symbol(const struct elf_scope *scope, const char *symbol);

/* The object of that name alone, if it was there when the program started, without its extent.
 * Calls no function: sanitizers call dlsym before the functions that they intercept work. */
bool elf_find_at_start(const char *soname, struct elf_object *ret_object);

/* The function `symbol` in the first object behind this library in load order; NULL. Calls no
 * function either. */
void *elf_behind_us_at_start(const char *symbol);

/* An object from its first bytes, for namespaces that dl_iterate_phdr() does not walk. */
bool elf_read_image(const void *image, struct elf_object *ret_object);

/* elf_holder.c: whether the object that holds an address has the DT_SONAME `soname`, in any
 * namespace of the dynamic linker. *ret_path: its file, as long as it is loaded; "": unknown. */
bool elf_holder_is(const void *address, const char *soname, const char **ret_path);

/* The function `symbol` that an object defines, its default version first; NULL. */
void *elf_object_symbol(const struct elf_object *object, const char *symbol);

/*
 * The function `symbol` in the first object that defines it, in load order; NULL. The loader would
 * bind a reference to it: the C library's, or another library's that comes before, such as a
 * sanitizer.
 */
void *elf_first_symbol(const char *symbol);

/* The function `symbol` in the first object after the one that holds `address`, in load order;
 * NULL. As RTLD_NEXT, except that objects opened with RTLD_LOCAL count here. */
void *elf_next_symbol(const void *address, const char *symbol);

#endif

#include "hook/loader/dlsym.h"

#include "base/log.h"
#include "hook/loader/elf.h"
#include "hook/loader/hook.h"
#include "hook/loader/pass.h"
#include "hook/loader/state.h"
#include "hook/loader/wrappers.h"

#include <dlfcn.h>

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);

void *dlsym_next, *dlvsym_next;
static void *dlsym_libc, *dlvsym_libc;

/*
 * From glibc 2.34 on they are in libc, before that in libdl, which their callers have loaded. Any
 * thread may come first, even a sanitizer that is not ready itself. So nothing is called here that
 * another library may intercept.
 */
static void find_libc(void)
{
    static const char *const homes[] = {"libc.so.6", "libdl.so.2"};
    void *other;

    for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
        struct elf_object home;
        void *symbol, *versioned, *next;

        if (!elf_find_at_start(homes[i], &home))
            continue;
        symbol = elf_object_symbol(&home, "dlsym");
        versioned = elf_object_symbol(&home, "dlvsym");
        if (!symbol || !versioned)
            continue;
        __atomic_store_n(&dlvsym_libc, versioned, __ATOMIC_RELAXED);
        next = elf_behind_us_at_start("dlsym");
        __atomic_store_n(&dlsym_next, next ? next : symbol, __ATOMIC_RELAXED);
        next = elf_behind_us_at_start("dlvsym");
        __atomic_store_n(&dlvsym_next, next ? next : versioned, __ATOMIC_RELAXED);
        __atomic_store_n(&dlsym_libc, symbol, __ATOMIC_RELEASE);
        return;
    }
    /* Another C library, such as musl: it runs no driver, but its programs are to find their own
     * symbols. */
    other = elf_next_symbol((const void *)find_libc, "dlsym");
    __atomic_store_n(&dlsym_next, other, __ATOMIC_RELAXED);
    __atomic_store_n(&dlsym_libc, other, __ATOMIC_RELEASE);
}

/* The symbol of this library's for an entry: the wrapper, or the counting trampoline. */
static void *own_symbol(int entry)
{
    return wrappers[entry] ? wrappers[entry] : (void *)(pass_base + PASS_BYTES * entry);
}

void *dlsym_stand_in(void *address)
{
    int entry = address && hook_wanted() ? symbols_at_address(address) : ENTRY_NONE;

    if (entry == ENTRY_NONE || (!wrappers[entry] && !hook_trace_wanted()))
        return address;
    return own_symbol(entry);
}

/*
 * The lookup found this library's symbol, because it comes before the driver in the global scope.
 * The program is to get what it would have got without this library, or the wrapper of that: never
 * a wrapper of nothing.
 */
static void *behind_us(int entry)
{
    void *address = NULL;

    if (symbols_resolve(symbols_library_of(entry)))
        address = symbols_real(entry);
    if (!address)
        address = elf_next_symbol((const void *)behind_us, symbols_name(entry));
    if (!address) /* for what dlerror() says */
        address = ((dlsym_fn *)dlsym_libc)(RTLD_NEXT, symbols_name(entry));
    return address;
}

/*
 * A program may load the driver twice, from another folder or into a namespace of its own
 * (dlmopen). Lookups in the second copy are answered from the first, which is bound: so the program
 * only ever calls that one. Code in another namespace calls the driver there unseen.
 */
static void *of_first_copy(int entry, void *address)
{
    static atomic_bool told;
    enum symbols_library library = symbols_library_of(entry);
    bool resolved = symbols_resolve(library);
    const char *path;
    void *first;

    if (symbols_in_driver(address) || !elf_holder_is(address, symbols_soname(library), &path))
        return address;
    first = resolved ? symbols_real(entry) : NULL;
    if (!atomic_exchange(&told, true)) {
        if (first)
            log_warning("%.255s is a second %s: calls of it that are looked up go to the first, "
                        "others are not bound",
                        path, symbols_soname(library));
        else
            log_warning("%.255s was loaded where the library is not (dlmopen): calls of it are not "
                        "bound; `vgpu run "
                        "--guard` holds limits there",
                        path);
    }
    return first ? first : address;
}

static void *look_up(void *handle, const char *name, const char *version, void *caller)
{
    if (handle == RTLD_NEXT)
        return elf_next_symbol(caller, name);
    if (version)
        return ((dlvsym_fn *)dlvsym_libc)(handle, name, version);
    return ((dlsym_fn *)dlsym_libc)(handle, name);
}

struct dlsym_route dlsym_route(void *handle, const char *name, const char *version, void *caller)
{
    const struct dlsym_route pass_on = {0};
    int entry = ENTRY_NONE;
    void *address;

    if (!__atomic_load_n(&dlsym_libc, __ATOMIC_ACQUIRE))
        find_libc();
    if (name)
        entry = symbols_find(name);
    if (entry == ENTRY_NONE || !dlsym_libc || symbols_in_driver(caller))
        return pass_on;
    address = look_up(handle, name, version, caller);
    if (!address)
        return pass_on; /* it fails again, and dlerror() names the caller */
    if (address == own_symbol(entry))
        address = behind_us(entry);
    else if (hook_wanted())
        address = of_first_copy(entry, address);
    return (struct dlsym_route){dlsym_stand_in(address), 1};
}

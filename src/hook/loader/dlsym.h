/*
 * dlsym and dlvsym as programs get them. Their entries are in assembly (dlsym_x86_64.S,
 * dlsym_aarch64.S). For other names they jump to the C library's function, with every register and
 * the return address as they came: RTLD_NEXT and RTLD_DEFAULT mean the caller, whom the C library
 * knows by that address.
 */
#ifndef VGPU_HOOK_LOADER_DLSYM_H
#define VGPU_HOOK_LOADER_DLSYM_H

#include <stddef.h>

/*
 * The functions that a call would reach without this library: the C library's, or another library's
 * that comes before it and behind this one. NULL until dlsym_route() has run. The
 * assembly jumps through them.
 */
extern void *dlsym_next, *dlvsym_next;

/* Returned in two registers on both machines. */
struct dlsym_route {
    void *result;
    size_t answered; /* 0: jump to the C library's function instead */
};

/* `caller`: the return address of the call. `version`: NULL for dlsym. */
struct dlsym_route dlsym_route(void *handle, const char *name, const char *version, void *caller);

/* Maps an address that the driver returned to the one that the program gets instead. Returns any
 * other as it is. */
void *dlsym_stand_in(void *address);

#endif

/*
 * dlsym and dlvsym as programs get them. Their entries are in assembly (dlsym_x86_64.S,
 * dlsym_aarch64.S): for a name that is none of ours they jump to the C library's function with
 * every register and the return address as they came, because RTLD_NEXT and RTLD_DEFAULT mean the
 * caller, and the C library tells it by that address.
 */
#ifndef VGPU_HOOK_DLSYM_H
#define VGPU_HOOK_DLSYM_H

#include <stddef.h>

/*
 * What a call would have met without us: the C library's, or that of another library which stands
 * in front of it and behind us. NULL until dlsym_route() or dlsym_real() has run. The assembly
 * jumps through them.
 */
extern void *dlsym_next, *dlvsym_next;

/* Returned in two registers on both machines. */
struct dlsym_route {
    void *result;
    size_t answered; /* 0: jump to the C library's function instead */
};

/* `caller`: the return address of the call. `version`: NULL for dlsym. */
struct dlsym_route dlsym_route(void *handle, const char *name, const char *version, void *caller);

/* The C library's dlsym, for lookups of our own. NULL where there is none. */
void *dlsym_real(void *handle, const char *name);

/* Maps an address that the driver handed out to what the program is to get instead; any other is
 * returned as it is. */
void *dlsym_stand_in(void *address);

#endif

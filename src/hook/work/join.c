/* Each process that loads the library belongs to its instance from then on, whether or not it uses
 * a GPU. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/setting.h"
#include "account/instance.h"
#include "account/member.h"
#include "hook/loader/elf.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

/*
 * Another library's dlsym before vgpu's gets the program's calls: vgpu never sees what that does
 * not pass on, and later is too late to find out. The C library's comes first if nobody has
 * preloaded vgpu.
 */
static void tell_who_is_first(const char *folder)
{
    void *first = elf_first_symbol("dlsym");
    const char *path = "";

    if (first == NULL || first == (void *)dlsym || elf_holder_is(first, "libc.so.6", &path) ||
        elf_holder_is(first, "libdl.so.2", &path) || !log_wanted(LOG_LEVEL_WARNING) ||
        !member_first_to_tell(folder))
        return;
    log_warning("%.255s has a dlsym of its own before libvgpu.so: CUDA calls that it does not pass "
                "on are not limited; "
                "put libvgpu.so first in LD_PRELOAD",
                path);
}

__attribute__((constructor)) static void join_at_load(void)
{
    KEEP_ERRNO;
    char folder[PATH_MAX];

    /* A set-uid program opens nothing that its caller names. */
    if (!setting_secure_text(SETTING_INSTANCE) || instance_folder(folder, sizeof(folder)) < 0)
        return;
    member_join(folder);
    tell_who_is_first(folder);
}

#include "hook/loader/elf.h"

#include <dlfcn.h>
#include <string.h>

bool elf_holder_is(const void *address, const char *soname, const char **ret_path)
{
    struct elf_object object;
    Dl_info info;

    if (!dladdr(address, &info) || !info.dli_fbase || !elf_read_image(info.dli_fbase, &object))
        return false;
    *ret_path = info.dli_fname ? info.dli_fname : "";
    return strcmp(object.soname, soname) == 0;
}

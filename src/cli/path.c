#include "cli/path.h"

#include <string.h>

bool path_join(char *ret_path, size_t size, const char *folder, const char *name)
{
    size_t folder_length = strlen(folder), name_length = strlen(name);

    *ret_path = '\0';
    if (folder_length + 1 + name_length >= size)
        return false;
    memcpy(ret_path, folder, folder_length);
    ret_path[folder_length] = '/';
    memcpy(ret_path + folder_length + 1, name, name_length + 1);
    return true;
}

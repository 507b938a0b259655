#include "account/implicit.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int folder(const char *runtime, char *buffer, size_t buffer_bytes)
{
    int length = snprintf(buffer, buffer_bytes, "%s/implicit", runtime);

    return length < 0 || (size_t)length >= buffer_bytes ? -ENAMETOOLONG : 0;
}

/* FNV-1a. If two paths get one name, one of them is missing in lists. */
static uint64_t hash(const char *text)
{
    uint64_t hash = 0xCBF29CE484222325ULL;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001B3ULL;
    return hash;
}

void implicit_register(const char *cache_path)
{
    KEEP_ERRNO;
    char runtime[PATH_MAX], path[PATH_MAX], link[PATH_MAX + 24];

    if (runtime_dir_make(runtime, sizeof(runtime)) < 0 || folder(runtime, path, sizeof(path)) < 0 ||
        file_make_folders(path, 0700) < 0)
        return;
    snprintf(link, sizeof(link), "%s/%016llx", path, (unsigned long long)hash(cache_path));
    (void)!symlink(cache_path, link);
}

void implicit_each(const char *runtime_folder, void (*visit)(const char *cache_path, void *arg),
                   void *arg)
{
    KEEP_ERRNO;
    char path[PATH_MAX], target[PATH_MAX];
    struct dirent *entry;
    struct stat found;
    DIR *entries;
    int rc;

    if (folder(runtime_folder, path, sizeof(path)) < 0 || !(entries = opendir(path)))
        return;
    while ((entry = readdir(entries))) {
        ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof(target) - 1);

        if (length <= 0)
            continue;
        target[length] = '\0';
        rc = file_stat_path(target, 0, &found);
        if (rc == 0)
            visit(target, arg);
        else if (rc == -ENOENT)
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    closedir(entries);
}

#include "core/implicit.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int folder(int make, char *buffer, size_t buffer_bytes)
{
    char runtime[PATH_MAX];
    int length, rc = make ? runtime_dir_make(runtime, sizeof(runtime)) : runtime_dir(runtime, sizeof(runtime));

    if (rc < 0)
        return rc;
    length = snprintf(buffer, buffer_bytes, "%s/implicit", runtime);
    if (length < 0 || (size_t)length >= buffer_bytes)
        return -ENAMETOOLONG;
    return make ? file_make_folders(buffer, 0700) : 0;
}

/* FNV-1a: two paths that meet in one name cost one of them its place in a list. */
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
    char path[PATH_MAX], link[PATH_MAX + 24];

    if (folder(1, path, sizeof(path)) < 0)
        return;
    snprintf(link, sizeof(link), "%s/%016llx", path, (unsigned long long)hash(cache_path));
    (void)!symlink(cache_path, link);
}

void implicit_each(void (*visit)(const char *cache_path, void *arg), void *arg)
{
    KEEP_ERRNO;
    char path[PATH_MAX], target[PATH_MAX];
    struct dirent *entry;
    struct stat found;
    DIR *entries;
    int rc;

    if (folder(0, path, sizeof(path)) < 0 || !(entries = opendir(path)))
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

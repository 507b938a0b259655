#include "guard/nvidia/nvml.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/setting.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#endif

/* Where distributions, container runtimes, WSL and NixOS have it. */
static const char *const folders[] = {
    ("/usr/lib/" MULTIARCH),   "/usr/lib64",       "/usr/lib",
    "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib",
};

/* In a user namespace root's files may belong to the overflow user, as whom no process in it can
 * write. */
static bool is_roots(const struct stat *st)
{
    char text[32];
    size_t length;

    if (st->st_uid == 0)
        return true;
    return file_read_small("/proc/sys/kernel/overflowuid", text, sizeof(text), &length) == 0 &&
           st->st_uid == (uid_t)strtoul(text, NULL, 10) && st->st_uid != geteuid();
}

static bool is_closed(const char *path)
{
    struct stat st;

    return file_stat_path(path, 1, &st) == 0 && is_roots(&st) &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Whether a file and all folders above it are root's, and only root can write to them. */
static bool is_trusted(const char *path)
{
    char *real CLEANUP(cleanup_free) = realpath(path, NULL);
    char *slash;

    if (!real || !is_closed(real))
        return false;
    while ((slash = strrchr(real, '/')) && slash != real) {
        *slash = '\0';
        if (!is_closed(real))
            return false;
    }
    return is_closed("/");
}

int nvml_find(const char *given, char *ret_path, size_t bytes, const char **ret_why)
{
    snprintf(ret_path, bytes, "%s", given ? given : "libnvidia-ml.so.1");
    *ret_why = given ? " cannot be read" : " is in none of the system's folders";
    if (given)
        return access(given, R_OK) < 0 ? -ENOENT : 0;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folders[i]);
        if (access(path, R_OK) < 0)
            continue;
        snprintf(ret_path, bytes, "%s", path);
        *ret_why = " or a folder above it can be written to by others than root";
        return is_trusted(path) ? 0 : -EPERM;
    }
    return -ENOENT;
}

/* For a missing folder, the nearest one above it: its owner decides what will be in it. */
static bool folder_closed(char *folder)
{
    char *slash;

    while (access(folder, F_OK) < 0 && errno == ENOENT && (slash = strrchr(folder, '/')) &&
           slash != folder)
        *slash = '\0';
    return is_trusted(folder);
}

bool nvml_search_closed(void)
{
    const char *list = setting_text(SETTING_LIBRARY_PATH);

    if (!list)
        return true;
    for (;; list++) {
        size_t length = strcspn(list, ":;");
        char folder[PATH_MAX];

        /* A path that is not absolute is the working folder, or begins with a token of the loader.
         */
        if (*list != '/' || length >= sizeof(folder) || memchr(list, '$', length))
            return false;
        memcpy(folder, list, length);
        folder[length] = '\0';
        if (!folder_closed(folder))
            return false;
        list += length;
        if (!*list)
            return true;
    }
}

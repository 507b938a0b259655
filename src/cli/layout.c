#include "cli/layout.h"

#include "base/setting.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool own_folder(char *ret_folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", ret_folder, size - 1);

    if (length <= 0)
        return false;
    ret_folder[length] = '\0';
    *strrchr(ret_folder, '/') = '\0';
    return true;
}

static bool take_if_there(const char *path, char *ret_path, size_t size)
{
    char real[PATH_MAX];

    if (access(path, R_OK) < 0 || !realpath(path, real) || strlen(real) >= size)
        return false;
    memcpy(ret_path, real, strlen(real) + 1);
    return true;
}

static bool take_first_match(const char *pattern, char *ret_path, size_t size)
{
    glob_t found = {0};
    bool taken = false;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !taken; i++)
            taken = take_if_there(found.gl_pathv[i], ret_path, size);
    globfree(&found);
    return taken;
}

/* Finds a file or directory: beside the command in a build directory, in a private library
 * directory if installed. */
static bool find_part(const char *part, char *ret_path, size_t size)
{
    static const char *const installed[] = {("../" VGPU_LIBDIR), "../lib*/vgpu", "../lib/*/vgpu"};
    char folder[PATH_MAX], path[2 * PATH_MAX];

    if (!own_folder(folder, sizeof(folder)))
        return false;
    snprintf(path, sizeof(path), "%s/%s", folder, part);
    if (take_if_there(path, ret_path, size))
        return true;
    for (size_t i = 0; i < sizeof(installed) / sizeof(installed[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", folder, installed[i], part);
        if (take_first_match(path, ret_path, size))
            return true;
    }
    return false;
}

int layout_library(bool trace, char *ret_path, size_t size)
{
    const char *chosen = setting_text(SETTING_LIBRARY);

    *ret_path = '\0';
    if (chosen) {
        if (!take_if_there(chosen, ret_path, size)) {
            snprintf(ret_path, size, "%s", chosen);
            return -ENOENT;
        }
    } else if (!find_part(trace ? "libvgpu-trace.so" : "libvgpu.so", ret_path, size)) {
        return -ENOENT;
    }
    return strpbrk(ret_path, " \t:") ? -EINVAL : 0;
}

int layout_sim(char *ret_path, size_t size)
{
    char driver[PATH_MAX];

    *ret_path = '\0';
    if (!find_part("sim/libcuda.so.1", driver, sizeof(driver)) || strlen(driver) >= size)
        return -ENOENT;
    /* The driver may be a link to a file of another name; only its directory counts. */
    *strrchr(driver, '/') = '\0';
    memcpy(ret_path, driver, strlen(driver) + 1);
    return strpbrk(ret_path, ":;") ? -EINVAL : 0;
}

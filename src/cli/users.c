#include "cli/users.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_MAX (4U << 20)

/* Reads a whole file of /proc; *ret_size is what there is. NULL: not readable. The caller frees it. */
static char *read_proc_file(const char *path, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0, space = 0;
    char *text = NULL;

    if (fd < 0)
        return NULL;
    for (;;) {
        ssize_t got;

        if (size == space) {
            char *larger = space < ENVIRON_MAX ? realloc(text, space ? space * 2 : 8192) : NULL;

            if (!larger)
                break;
            text = larger;
            space = space ? space * 2 : 8192;
        }
        got = read(fd, text + size, space - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    close(fd);
    *ret_size = size;
    return text;
}

static bool has_entry(const char *environment, size_t size, const char *entry)
{
    size_t length = strlen(entry) + 1;

    for (const char *at = environment, *end = environment + size; at < end;) {
        const char *stop = memchr(at, '\0', (size_t)(end - at));

        if (!stop)
            return false;
        if ((size_t)(stop + 1 - at) == length && !memcmp(at, entry, length))
            return true;
        at = stop + 1;
    }
    return false;
}

unsigned users_count(const char *dir)
{
    char entry[PATH_MAX + 16];
    DIR *processes = opendir("/proc");
    struct dirent *process;
    unsigned count = 0;

    if (!processes)
        return 0;
    snprintf(entry, sizeof(entry), "VGPU_INSTANCE=%s", dir);
    while ((process = readdir(processes))) {
        char path[64], *environment;
        size_t size = 0;

        if (!isdigit((unsigned char)process->d_name[0]) || atoi(process->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/%.16s/environ", process->d_name);
        environment = read_proc_file(path, &size);
        if (environment && has_entry(environment, size, entry))
            count++;
        free(environment);
    }
    closedir(processes);
    return count;
}

#include "cli/program.h"

#include "base/setting.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPT_DEPTH 4 /* the kernel's own bound for scripts run by scripts */

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

static int executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno == EACCES ? -EACCES : -ENOENT;
    return S_ISREG(st.st_mode) && !access(path, X_OK) ? 0 : -EACCES;
}

int program_find(const char *name, char *ret_path, size_t size)
{
    const char *search = setting_raw(SETTING_SEARCH_PATH);
    int result = -ENOENT;

    if (!*name)
        return -ENOENT;
    if (strchr(name, '/')) {
        if ((size_t)snprintf(ret_path, size, "%s", name) >= size)
            return -ENOENT;
        return executable(name);
    }
    if (!search)
        search = setting_rows[SETTING_SEARCH_PATH].initial;
    for (;; search++) {
        size_t length = strcspn(search, ":");
        char path[4096];
        int written = snprintf(path, sizeof(path), "%.*s%s%s", (int)length, search,
                               length ? "/" : "./", name);

        if (written > 0 && (size_t)written < sizeof(path) && (size_t)written < size) {
            int found = executable(path);

            if (!found || (found == -EACCES && result == -ENOENT)) {
                memcpy(ret_path, path, (size_t)written + 1);
                result = found;
            }
            if (!found)
                return 0;
        }
        search += length;
        if (!*search)
            return result;
    }
}

static enum program_binding examine_interpreter(int fd, const Elf64_Phdr *header)
{
    char loader[256] = "";
    const char *base;

    if (header->p_filesz == 0 || header->p_filesz >= sizeof(loader) ||
        pread(fd, loader, header->p_filesz, (off_t)header->p_offset) != (ssize_t)header->p_filesz)
        return PROGRAM_UNKNOWN;
    base = strrchr(loader, '/') ? strrchr(loader, '/') + 1 : loader;
    if (!strncmp(base, "ld-musl", 7) || strstr(loader, "-musl/"))
        return PROGRAM_MUSL;
    return !strncmp(base, "ld-linux", 8) || !strncmp(base, "ld-2.", 5) ? PROGRAM_BOUND
                                                                       : PROGRAM_OTHER_LIBC;
}

static enum program_binding examine_elf(int fd, const unsigned char *head, size_t length)
{
    Elf64_Ehdr elf;

    if (length < EI_NIDENT || memcmp(head, ELFMAG, SELFMAG))
        return PROGRAM_UNKNOWN;
    if (head[EI_CLASS] == ELFCLASS32)
        return PROGRAM_32BIT;
    if (length < sizeof(elf))
        return PROGRAM_UNKNOWN;
    memcpy(&elf, head, sizeof(elf));
    if (elf.e_machine != OWN_MACHINE)
        return PROGRAM_OTHER_MACHINE;
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        Elf64_Phdr header;

        if (pread(fd, &header, sizeof(header),
                  (off_t)(elf.e_phoff + (uint64_t)i * elf.e_phentsize)) != (ssize_t)sizeof(header))
            return PROGRAM_UNKNOWN;
        if (header.p_type == PT_INTERP)
            return examine_interpreter(fd, &header);
    }
    return PROGRAM_STATIC;
}

/* Whether the loader runs in its secure mode. It does not if this user owns the file. */
static bool is_privileged(int fd, const char *path)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return true;
    return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* The program of "#!/usr/bin/env [-S] [NAME=VALUE]... program"; `words` follow "env". */
static bool env_target(char *words, char *ret_path, size_t size)
{
    char *rest = NULL;

    for (char *word = strtok_r(words, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (word[0] == '-' || strchr(word, '='))
            continue;
        return !program_find(word, ret_path, size);
    }
    return false;
}

/* The interpreter's path from the first line of a script. False: there is none. */
static bool script_interpreter(char *line, char *ret_path, size_t size)
{
    char *path = line + 2 + strspn(line + 2, " \t");
    char *rest;

    line[strcspn(line, "\n")] = '\0';
    rest = path + strcspn(path, " \t");
    if (*rest)
        *rest++ = '\0';
    if (!*path || strlen(path) >= size)
        return false;
    if (strlen(path) >= 4 && !strcmp(path + strlen(path) - 4, "/env") &&
        env_target(rest, ret_path, size))
        return true;
    memcpy(ret_path, path, strlen(path) + 1);
    return true;
}

void program_examine(const char *path, struct program_info *ret_info)
{
    *ret_info = (struct program_info){.binding = PROGRAM_UNKNOWN};
    snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
    for (unsigned depth = 0; depth < SCRIPT_DEPTH; depth++) {
        char head[512];
        int fd = open(ret_info->file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t length;
        char next[sizeof(ret_info->file)];

        if (fd < 0)
            return;
        length = read(fd, head, sizeof(head) - 1);
        if (length < 0)
            length = 0;
        head[length] = '\0';
        if (length < 2 || memcmp(head, "#!", 2)) {
            ret_info->binding = examine_elf(fd, (unsigned char *)head, (size_t)length);
            if (ret_info->binding == PROGRAM_BOUND && is_privileged(fd, ret_info->file))
                ret_info->binding = PROGRAM_PRIVILEGED;
            close(fd);
            return;
        }
        close(fd);
        ret_info->is_script = true;
        if (!script_interpreter(head, next, sizeof(next)))
            return;
        memcpy(ret_info->file, next, sizeof(next));
    }
}

const char *program_obstacle(enum program_binding binding)
{
    switch (binding) {
    case PROGRAM_STATIC:
        return "is statically linked: no library can be preloaded into it";
    case PROGRAM_MUSL:
        return "is linked against musl: the library, which is for glibc, cannot bind it";
    case PROGRAM_OTHER_LIBC:
        return "does not use glibc's loader: the library cannot be preloaded into it";
    case PROGRAM_32BIT:
        return "is a 32-bit program: the 64-bit library cannot be preloaded into it";
    case PROGRAM_OTHER_MACHINE:
        return "is built for another machine: the library cannot be preloaded into it";
    case PROGRAM_PRIVILEGED:
        return "is setuid, setgid or has file capabilities: the loader ignores LD_PRELOAD for it";
    case PROGRAM_BOUND:
    case PROGRAM_UNKNOWN:
        break;
    }
    return NULL;
}

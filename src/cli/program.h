/* Finds the program that a user names, and tells whether it loads a preloaded library. */
#ifndef VGPU_CLI_PROGRAM_H
#define VGPU_CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum program_binding {
    PROGRAM_BOUND,      /* dynamically linked against glibc, for this machine */
    PROGRAM_STATIC,     /* no dynamic loader */
    PROGRAM_MUSL,       /* musl's loader: a library built against glibc does not load */
    PROGRAM_OTHER_LIBC, /* some other loader */
    PROGRAM_32BIT,
    PROGRAM_OTHER_MACHINE, /* run by an emulator */
    PROGRAM_PRIVILEGED,    /* setuid, setgid or file capabilities: the loader ignores paths in
                              LD_PRELOAD */
    PROGRAM_UNKNOWN        /* it cannot be read, or is no ELF file */
};

struct program_info {
    enum program_binding binding;
    char file[4096]; /* the ELF file that the kernel loads: of a script, the interpreter */
    bool is_script;
};

/* Looks `name` up as execvp() does. -ENOENT: it does not exist; -EACCES: *ret_path exists but
 * cannot be executed. */
int program_find(const char *name, char *ret_path, size_t size);

/* Examines the file at `path`, and the interpreter of a script. */
void program_examine(const char *path, struct program_info *ret_info);

/* The reason why the program loads no preloaded library, as the end of a sentence about the file.
 * NULL for PROGRAM_BOUND and _UNKNOWN. */
const char *program_obstacle(enum program_binding binding);

#endif

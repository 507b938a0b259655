/* Finding the program that a user names, and whether a preloaded library gets into it. */
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
    PROGRAM_PRIVILEGED, /* setuid, setgid or file capabilities: the loader ignores LD_PRELOAD paths
                         */
    PROGRAM_UNKNOWN     /* cannot be read, or no ELF file */
};

struct program_info {
    enum program_binding binding;
    char file[4096]; /* the ELF file that the kernel loads in the end: for a script, its interpreter
                      */
    bool is_script;
};

/*
 * Looks `name` up as execvp() would. -ENOENT: there is none; -EACCES: what there is cannot be
 * executed (*ret_path is set to it all the same).
 */
int program_find(const char *name, char *ret_path, size_t size);

/* Looks at the file at `path`, and at the interpreter if it is a script. */
void program_examine(const char *path, struct program_info *ret_info);

/* Why a preloaded library does not get in, as the end of a sentence about the file; NULL for
 * PROGRAM_BOUND and _UNKNOWN. */
const char *program_obstacle(enum program_binding binding);

#endif

/* Trapped calls, and the answers to them. */
#ifndef VGPU_GUARD_TRAP_H
#define VGPU_GUARD_TRAP_H

#include "guard/notify/notify.h"

/* A system call that waits for an answer. All of it comes from the kernel, so the program cannot
 * change it. It can change what the address leads to. */
struct trap {
    uint64_t id;
    pid_t tid;
    bool is_mmap;
    int fd;
    uint32_t cmd;     /* of an ioctl: its low half; the kernel ignores the rest */
    uint64_t address; /* of an ioctl's structure; of mmap: the length */
};

#define TRAP_CONTINUE 1

/* Answers a trap: TRAP_CONTINUE, or what the system call returns: 0 or -errno. */
struct trap_server {
    struct notify *notify;
    int (*handle)(void *arg, const struct trap *trap);
    void *arg;
};

/* The trap thread: answers until the guard ends or no process is left that could call. */
void *trap_serve(void *server);

/* Whether the call still waits: asked after reading from the caller, before anything is done. */
bool trap_valid(const struct notify *notify, const struct trap *trap);

/* Gives the caller a duplicate of `fd`, closed at exec. Its number in the caller, or -errno. */
int trap_give(const struct notify *notify, const struct trap *trap, int fd);

/* Whether no process runs under the filter any more. */
bool trap_nobody_left(const struct notify *notify);

/*
 * A program can make a reader of its memory wait for as long as it likes (userfaultfd(2), a file
 * system of its own). So its memory is read before the lock is taken and written after that.
 * trap_begin() takes the lock; false: the guard ends, nothing may be done. trap_end() in any case.
 */
bool trap_begin(struct notify *notify);
void trap_end(struct notify *notify);

#endif

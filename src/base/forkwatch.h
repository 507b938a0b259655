/*
 * Tells the library in a forked child that it runs there, without a system call for each question.
 *
 * A word lies in a page that the kernel wipes on fork (MADV_WIPEONFORK, Linux 4.14). A
 * pthread_atfork handler clears the same word for older kernels. The first fork_check() in the
 * child runs the registered functions, oldest first. They initialise locks that a thread of the
 * parent may have held, and drop the parent's state.
 */
#ifndef VGPU_BASE_FORKWATCH_H
#define VGPU_BASE_FORKWATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fork_watch {
    /* Runs in one thread of the child before fork_check() returns there. Must not call
     * fork_check(). */
    void (*child)(void *arg);
    void *arg;
    /* child() makes only system calls and may run twice: the handler of fork() also runs it. */
    bool at_once;
    struct fork_watch *next;
};

/* The list refers to `watch` until fork_watch_remove(). */
void fork_watch_add(struct fork_watch *watch);
void fork_watch_remove(struct fork_watch *watch);

#define FORK_MARK_SAME 1u /* this process made the mark */
extern _Atomic(_Atomic uint32_t *) fork_mark;
void fork_entered_child(void);

/* Every function whose state a child must not inherit calls it first. It costs two loads. */
static inline void fork_check(void)
{
    _Atomic uint32_t *mark = atomic_load_explicit(&fork_mark, memory_order_acquire);

    if (__builtin_expect(atomic_load_explicit(mark, memory_order_acquire) != FORK_MARK_SAME, 0))
        fork_entered_child();
}

#endif

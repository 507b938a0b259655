/*
 * How code in somebody else's process learns that it runs in a forked child, without a system call
 * per question.
 *
 * A word in a page that the kernel wipes on fork (MADV_WIPEONFORK, Linux 4.14), and a
 * pthread_atfork handler that clears the same word where the kernel does not. The first question in
 * the child runs what was registered, oldest first: it re-initialises locks that a thread of the
 * parent may have held and empties what was the parent's.
 */
#ifndef VGPU_BASE_FORKWATCH_H
#define VGPU_BASE_FORKWATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fork_watch {
    /* Runs in the child, in one thread, before fork_check() returns there. Must not call
     * fork_check() itself. */
    void (*child)(void *arg);
    void *arg;
    /* child() makes system calls only and may run twice: the handler of fork() runs it already, if
     * there was one. */
    bool at_once;
    struct fork_watch *next;
};

/* `watch` stays with the list until it is removed. */
void fork_watch_add(struct fork_watch *watch);
void fork_watch_remove(struct fork_watch *watch);

#define FORK_MARK_SAME 1u /* still the process that made the mark */
extern _Atomic(_Atomic uint32_t *) fork_mark;
void fork_entered_child(void);

/* To be asked at the start of every function whose state a child must not inherit: two loads. */
static inline void fork_check(void)
{
    _Atomic uint32_t *mark = atomic_load_explicit(&fork_mark, memory_order_acquire);

    if (__builtin_expect(atomic_load_explicit(mark, memory_order_acquire) != FORK_MARK_SAME, 0))
        fork_entered_child();
}

#endif

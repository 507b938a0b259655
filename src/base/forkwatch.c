#include "base/forkwatch.h"

#include "base/cleanup.h"
#include "base/mutex.h"

#include <sched.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/*
 * What pthread_atfork() calls. Weak, because musl lacks it; there only the kernel wipes the page.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

#define FORK_MARK_CHILD 0u /* what the kernel or the handler leaves */
#define FORK_MARK_BUSY  2u /* a thread of the child runs the registered functions */

static _Atomic uint32_t static_mark = FORK_MARK_SAME; /* until the page is there */
_Atomic(_Atomic uint32_t *) fork_mark = &static_mark;

static struct vgpu_mutex list_lock = VGPU_MUTEX_INIT;
static struct fork_watch *list_head;
static bool prepared;

static void mark_child(void)
{
    KEEP_ERRNO;

    atomic_store_explicit(atomic_load(&fork_mark), FORK_MARK_CHILD, memory_order_release);
    for (struct fork_watch *watch = list_head; watch; watch = watch->next) {
        if (watch->at_once)
            watch->child(watch->arg);
    }
}

/* Under list_lock, before any state exists that a child must not inherit. */
static void prepare(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page != MAP_FAILED) {
        _Atomic uint32_t *mark = page;

        /* A kernel without MADV_WIPEONFORK returns EINVAL, and only the handler clears the word. */
        madvise(page, 4096, MADV_WIPEONFORK);
        atomic_store_explicit(mark, FORK_MARK_SAME, memory_order_relaxed);
        atomic_store(&fork_mark, mark);
    }
    if (__register_atfork)
        __register_atfork(NULL, NULL, mark_child, &__dso_handle);
    prepared = true;
}

void fork_watch_add(struct fork_watch *watch)
{
    KEEP_ERRNO;
    struct fork_watch **end = &list_head;

    MUTEX_SCOPE(&list_lock);
    if (!prepared)
        prepare();
    while (*end)
        end = &(*end)->next;
    watch->next = NULL;
    *end = watch;
}

void fork_watch_remove(struct fork_watch *watch)
{
    MUTEX_SCOPE(&list_lock);
    for (struct fork_watch **at = &list_head; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            return;
        }
    }
}

void fork_entered_child(void)
{
    KEEP_ERRNO;
    _Atomic uint32_t *mark = atomic_load(&fork_mark);
    uint32_t expected = FORK_MARK_CHILD;

    if (!atomic_compare_exchange_strong(mark, &expected, FORK_MARK_BUSY)) {
        while (atomic_load(mark) == FORK_MARK_BUSY)
            sched_yield();
        return;
    }
    mutex_init(&list_lock);
    for (struct fork_watch *watch = list_head; watch; watch = watch->next)
        watch->child(watch->arg);
    atomic_store(mark, FORK_MARK_SAME);
}

#include "hook/loader/sources.h"

#include "base/forkwatch.h"

static _Atomic(struct memory_source *) sources;

#define EACH_SOURCE(operation, ...)                                                                \
    for (struct memory_source *source = atomic_load_explicit(&sources, memory_order_acquire);      \
         source != NULL; source = source->next)                                                    \
        if (source->operation != NULL)                                                             \
    source->operation(__VA_ARGS__)

static void sources_in_child(void *arg)
{
    (void)arg;
    EACH_SOURCE(forked, );
}

void sources_register(struct memory_source *source)
{
    static struct fork_watch watch = {.child = sources_in_child};
    static atomic_bool watched;
    struct memory_source *first;

    if (atomic_load_explicit(&source->registered, memory_order_relaxed) ||
        atomic_exchange(&source->registered, true))
        return;
    if (!atomic_exchange(&watched, true))
        fork_watch_add(&watch);
    first = atomic_load(&sources);
    do
        source->next = first;
    while (!atomic_compare_exchange_weak(&sources, &first, source));
}

void sources_refresh(void)
{
    EACH_SOURCE(refresh, );
}

void sources_trim(unsigned vdev)
{
    EACH_SOURCE(trim, vdev);
}

void sources_context_gone(CUcontext context)
{
    EACH_SOURCE(context_gone, context);
}

void sources_noted_left(struct vgpu_ledger *ledger, const struct granule_share *left)
{
    EACH_SOURCE(noted_left, ledger, left);
}

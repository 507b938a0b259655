/*
 * Files that the supervisor maps belong to others as well, who may cut them short: whoever touches
 * what is missing then gets SIGBUS. `vgpu run` is a process of our own, so it handles that signal:
 * zero pages take the file's place, and the flag that was given says so. The reader must get along
 * with zeros, as with anything else that others write there.
 */
#ifndef VGPU_GUARD_BUS_H
#define VGPU_GUARD_BUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Once a process, before its threads: they must not block SIGBUS. -errno. */
int bus_handle(void);

/*
 * From now on the whole range is replaced when a part of it is missing, and *lost set. (In a range
 * that nobody watches the page is replaced.) -ENOSPC: too many are watched; then it is one of the
 * others. Any thread.
 */
int bus_watch(void *base, size_t bytes, atomic_bool *lost);
void bus_forget(const void *base); /* before it is unmapped */

#endif

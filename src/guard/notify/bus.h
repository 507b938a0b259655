/*
 * Files that the supervisor maps belong to others as well, who can cut them short. An access beyond
 * the end then gets SIGBUS. `vgpu run` is our own process, so it handles that signal: zero pages
 * take the file's place, and a flag tells. Readers have to get along with zeros, as with anything
 * else that others write there.
 */
#ifndef VGPU_GUARD_BUS_H
#define VGPU_GUARD_BUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Called once, before threads start; those must not block SIGBUS. -errno. */
int bus_handle(void);

/*
 * From now on, if a part of the range is missing, all of it is replaced and *lost set. In a range
 * that is not watched, only the page is replaced. -ENOSPC: too many are watched; this one is not.
 * Any thread.
 */
int bus_watch(void *base, size_t bytes, atomic_bool *lost);
void bus_forget(const void *base); /* before it is unmapped */

#endif

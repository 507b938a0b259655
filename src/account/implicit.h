/*
 * Where the implicit instances of a user are: those that HAMi's variables make, whose region is in
 * a cache file anywhere.
 *
 * Each process that attaches to one leaves a symlink to the cache file in "<runtime
 * directory>/implicit/", a folder of the user's own (0700). In a container that is the container's:
 * from outside of it, the instance is not found.
 */
#ifndef VGPU_ACCOUNT_IMPLICIT_H
#define VGPU_ACCOUNT_IMPLICIT_H

/* Leaves the link; `cache_path` is absolute. Nobody is told where it cannot: the instance works
 * without. */
void implicit_register(const char *cache_path);

/*
 * Calls back with the path of each cache file that is there, in no order; the region in it begins
 * at INSTANCE_CACHE_OFFSET. Links to files that are gone are removed. Any of them may be no region,
 * or unused by now: a path is what the runtime directory's user has written there.
 * `runtime_folder`: whose; the caller's own by runtime_dir().
 */
void implicit_each(const char *runtime_folder, void (*visit)(const char *cache_path, void *arg),
                   void *arg);

#endif

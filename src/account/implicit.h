/*
 * The implicit instances of a user: those that HAMi's variables make, whose region is in a cache
 * file anywhere. Each process that attaches to one leaves a symlink to the cache file in "<runtime
 * directory>/implicit/", a folder of the user's own (0700). In a container that folder is the
 * container's: the instance is not found from outside.
 */
#ifndef VGPU_ACCOUNT_IMPLICIT_H
#define VGPU_ACCOUNT_IMPLICIT_H

/* Makes the link; `cache_path` is absolute. A failure is not reported: the instance works
 * without. */
void implicit_register(const char *cache_path);

/*
 * Calls back with the path of each cache file that exists, in no order. The region in it begins at
 * hami_cache.base_offset. Removes links to files that are gone. A path is what a user has written:
 * the file may be no region, or unused. `runtime_folder`: whose; runtime_dir() is the caller's own.
 */
void implicit_each(const char *runtime_folder, void (*visit)(const char *cache_path, void *arg),
                   void *arg);

#endif

/*
 * The files of arenas: where a device's is, who owns it, how it is made.
 *
 * A user who can write a file can shrink it, and a program that has it mapped dies of that. So:
 *
 *   - In a folder where everybody may make files (sticky, as /dev/shm is), each user has its
 *     own files: vgpu-UID-UUID, mode 0600.
 *   - In a folder of root's that a group or everybody may write to, root has set up turns
 *     across users. vgpu-UUID is shared by those who may write to the folder, and has its group
 *     and mode (0660 or 0666).
 *   - In any other folder vgpu-UUID is the user's own, mode 0600.
 *
 * A file that belongs to another user where it must be the user's own, or that more users may write
 * than these, is not mapped.
 */
#ifndef VGPU_SCHED_ARENA_FILE_H
#define VGPU_SCHED_ARENA_FILE_H

#include "sched/arena.h"

#include <sys/stat.h>

struct arena_place {
    char path[ARENA_PATH_MAX];
    mode_t mode; /* of the file, permissions only */
    gid_t group; /* of the file, if mode is 0660 */
    bool each;   /* each user has its own files here */
};

/* The place of a device's arena for the user `uid`. -ENOENT ...: of the folder; -ENOTDIR;
 * -ENAMETOOLONG; -EINVAL. */
int arena_place_find(const char *uuid, uid_t uid, struct arena_place *ret_place);

/*
 * Whether an open file of `owner` may be used as an arena. 0: yes; -EPROTO: it is damaged or of
 * another version; -EPERM: it is another user's, or others may write it.
 */
int arena_file_check(int fd, const struct arena_place *place, uid_t owner, struct stat *ret_stat);

/*
 * Opens the file at a place of this user's. Makes it if there is none (`make`), and replaces a
 * damaged one that no process uses. *ret_fd is as liveness_get()'s. -errno as arena_open().
 */
int arena_file_get(const struct arena_place *place, const char *uuid, bool make,
                   struct liveness **ret_liveness, int *ret_fd);

#endif

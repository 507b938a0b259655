/*
 * Files of arenas: where a device's is, whose it must be, how it is made. What is in them is
 * arena.h's.
 *
 * Who may write. Whoever can write a file can shrink it, and a program that has it mapped dies of
 * that. So:
 *   - In a folder where everybody may make files (sticky, as /dev/shm is) each user has files of
 * his own: vgpu-UID-UUID, mode 0600.
 *   - In a folder of root's that a group (or everybody) may write to, root has set turns across
 * users up: vgpu-UUID is shared by those who may write to the folder, and has its group and mode
 * (0660 or 0666).
 *   - In any other folder vgpu-UUID is the user's own, mode 0600.
 * A file that is another user's where it must be one's own, or that more may write than these, is
 * not mapped.
 */
#ifndef VGPU_SCHED_ARENA_FILE_H
#define VGPU_SCHED_ARENA_FILE_H

#include "sched/arena.h"

#include <sys/stat.h>

struct arena_place {
    char path[ARENA_PATH_MAX];
    mode_t mode; /* of the file, permissions only */
    gid_t group; /* that the file has, where mode is 0660 */
    bool each;   /* each user has a file of his own here */
};

/* The place of a device's arena, for the user `uid`. -ENOENT ...: of the folder; -ENOTDIR;
 * -ENAMETOOLONG; -EINVAL. */
int arena_place_find(const char *uuid, uid_t uid, struct arena_place *ret_place);

/*
 * What an open file of `owner` is worth there: 0; -EPROTO: it is damaged or of another version;
 * -EPERM: it is another user's, or others may write it.
 */
int arena_file_check(int fd, const struct arena_place *place, uid_t owner, struct stat *ret_stat);

/*
 * The file at a place, which is this user's; made if need be (`make`), and put in the place of a
 * damaged one that nobody uses. *ret_fd is as liveness_get()'s. -errno as arena_open().
 */
int arena_file_get(const struct arena_place *place, const char *uuid, bool make,
                   struct liveness **ret_liveness, int *ret_fd);

#endif

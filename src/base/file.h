/*
 * Files and folders: what the C library makes easy to get wrong. All return 0 or -errno unless said
 * otherwise. What RLIMIT_FSIZE does not allow is -EFBIG and no signal.
 */
#ifndef VGPU_BASE_FILE_H
#define VGPU_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* stat without the C library's versioned wrappers (they differ between 2.17 and 2.33). */
int file_stat_fd(int fd, struct stat *ret_stat);
int file_stat_path(const char *path, int follow_links, struct stat *ret_stat);

/* Makes a folder and those above it. Those that this call makes get exactly `mode`, whatever the
 * umask is. */
int file_make_folders(const char *path, mode_t mode);

/* Reads at most buffer_bytes - 1 bytes and ends them with NUL. */
int file_read_small(const char *path, char *buffer, size_t buffer_bytes, size_t *ret_length);

/* Writes beside the file and renames over it: a reader sees the old text or the new, never half of
 * it. */
int file_write_atomic(const char *path, const void *data, size_t bytes, mode_t mode);

/* A name beside `path` that nobody else uses: "<path>.<pid>.<number>.tmp". -ENAMETOOLONG. */
int file_temporary_name(const char *path, char *buffer, size_t buffer_bytes);

/* Makes room that is really there: a hole that a full file system cannot fill is a SIGBUS later. */
int file_make_real(int fd, off_t from, off_t bytes);

int file_set_size(int fd, off_t bytes);

/* Puts a finished file at its place unless there is one: -EEXIST. Not every file system has hard
 * links. */
int file_publish(const char *temporary, const char *path);

/*
 * Where instances live: $VGPU_RUNTIME_DIR; else /run/vgpu for root, $XDG_RUNTIME_DIR/vgpu,
 * /tmp/vgpu-<uid>. Makes nothing. -ENAMETOOLONG; -EINVAL where VGPU_RUNTIME_DIR is not absolute.
 */
int runtime_dir(char *buffer, size_t buffer_bytes);

/*
 * The same, and makes it (mode 0700) where it is missing. A folder in /tmp that is a symlink,
 * another user's, or writable by others is refused with -EPERM: somebody has put it there before
 * us.
 */
int runtime_dir_make(char *buffer, size_t buffer_bytes);

#endif

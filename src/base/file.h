/* Files and folders. All functions return 0 or -errno unless stated otherwise. A write above
 * RLIMIT_FSIZE returns -EFBIG and raises no signal. */
#ifndef VGPU_BASE_FILE_H
#define VGPU_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* stat() without the versioned wrappers of the C library, which changed after glibc 2.17. */
int file_stat_fd(int fd, struct stat *ret_stat);
int file_stat_path(const char *path, int follow_links, struct stat *ret_stat);

/* Makes a folder and its missing parents with exactly `mode`, whatever the umask. */
int file_make_folders(const char *path, mode_t mode);

/* Reads at most buffer_bytes - 1 bytes and appends NUL. */
int file_read_small(const char *path, char *buffer, size_t buffer_bytes, size_t *ret_length);

/* Writes a file beside it and renames that: a reader sees the old text or the new one. */
int file_write_atomic(const char *path, const void *data, size_t bytes, mode_t mode);

/* A name beside `path` that nobody else uses: "<path>.<pid>.<number>.tmp". -ENAMETOOLONG. */
int file_temporary_name(const char *path, char *buffer, size_t buffer_bytes);

/* Allocates the blocks: writing to a hole of a mapped file raises SIGBUS when the disk is full. */
int file_make_real(int fd, off_t from, off_t bytes);

int file_set_size(int fd, off_t bytes);

/* Gives a finished file its name. -EEXIST: the name is taken. Works without hard links, too. */
int file_publish(const char *temporary, const char *path);

/* The runtime directory: $VGPU_RUNTIME_DIR; else /run/vgpu for root, $XDG_RUNTIME_DIR/vgpu, or
 * /tmp/vgpu-<uid>. Makes nothing. -ENAMETOOLONG; -EINVAL: VGPU_RUNTIME_DIR is not absolute. */
int runtime_dir(char *buffer, size_t buffer_bytes);

/* The same, and makes the directory (mode 0700) if it is missing. -EPERM: one in /tmp is a symbolic
 * link, belongs to another user, or is writable by others. An attacker may have made it. */
int runtime_dir_make(char *buffer, size_t buffer_bytes);

#endif

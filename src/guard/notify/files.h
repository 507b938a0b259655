/* The open files of the driver. All under notify->lock. */
#ifndef VGPU_GUARD_FILES_H
#define VGPU_GUARD_FILES_H

#include "guard/notify/notify.h"

int files_init(struct notify *notify); /* -errno */
void files_done(struct notify *notify);

/*
 * The caller's open file. 0; 1: it was unreferenced until now. -EBADF: it has none; -ENOTTY: it is
 * not the driver's (nothing else is ever trapped on purpose); -EPERM, -ESRCH, -EMFILE.
 */
int file_get(struct notify *notify, pid_t tid, int fd, struct guard_file **ret_file);

/* Takes `fd` as the file that is the thread's descriptor `its_fd`. -EMFILE; -ESRCH. */
int file_add(struct notify *notify, pid_t tid, int its_fd, int fd, enum device_kind kind,
             uint32_t number, struct guard_file **ret_file);
/* Whether a file that no process is seen to have is closed, see unreferenced_is_closed(). */
bool file_is_closed(struct notify *notify, struct guard_file *file);
void file_forget(struct notify *notify, struct guard_file *file);
struct guard_file *file_by_number(struct notify *notify, uint32_t number); /* NULL: no duplicate */

/* Whether the descriptor under which it was last seen still is the file. True where the kernel does
 * not tell. */
bool file_is_there(const struct guard_file *file);

/* Files whose holder is not known any more, and what /proc shows of them. */
#define FILES_SEARCH_MAX 128
struct file_search {
    unsigned count, left;
    struct {
        struct guard_file *file;
        char target[64];
        bool found;
    } of[FILES_SEARCH_MAX];
};

void file_search_add(struct file_search *search, struct guard_file *file); /* full: does nothing */
/* Looks for them among all processes: a program can leave its files to others in many ways. */
void file_search_run(struct notify *notify, struct file_search *search);

/*
 * unreferenced.c: files that no process is seen to have.
 */
int unreferenced_init(struct notify *notify);
void unreferenced_done(struct notify *notify);
/* From now on the kernel can be asked about the file. */
void unreferenced_watch(const struct notify *notify, struct guard_file *file);
/* Whether a file that no process is seen to have is closed. If the kernel can be asked, the file is
 * unreferenced from then on: its duplicate is put away. */
bool unreferenced_is_closed(const struct notify *notify, struct guard_file *file);
/* Whether `fd` is this unreferenced file, which is referenced again then. */
bool unreferenced_is(const struct notify *notify, struct guard_file *file, int fd);

#endif

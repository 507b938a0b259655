/*
 * The members of an instance of `vgpu run`: processes that lock bytes of the file "users" in its
 * folder, whether or not they use a GPU. A byte's number names its process: the inode number of the
 * PID namespace and the pid there. An open file description holds the lock (OFD), so other
 * descriptors of the file may come and go.
 *
 * A member keeps that description by a mapping and no descriptor, so the program cannot close it. A
 * forked child shares its parent's and counts with it: it stays in the instance at no cost. exec
 * ends membership, and the library joins again when the new program loads it. A program that does
 * not load the library is no member. It is in the instance as long as the leading `vgpu run` lives,
 * which has a byte in a range of its own.
 *
 * A user who may open the file may lock any byte, and so keep the instance: its owner, whose folder
 * it is (0700), and root.
 */
#ifndef VGPU_ACCOUNT_MEMBER_H
#define VGPU_ACCOUNT_MEMBER_H

#include <stdbool.h>

/* Only its locks matter. It is empty until member_first_to_tell() was called. */
#define MEMBER_FILE "users"

/*
 * Makes this process and its future children members of the instance in `folder` (absolute), until
 * they exec. Does nothing if the file does not exist or is not a regular file.
 */
void member_join(const char *folder);

/* True for the first caller in this instance: for messages that its user gets once. False if that
 * is unknown. */
bool member_first_to_tell(const char *folder);

/* Makes this process a leader while the descriptor is open. -errno. */
int member_lead(const char *folder);

struct member_counts {
    unsigned members, leaders; /* without the caller itself */
};

/* Counts members and leaders, up to `most` of each. Never waits. All zero if there is no such
 * file. */
void member_count(const char *folder, unsigned most, struct member_counts *ret_counts);

#endif

/*
 * Who is in an instance of `vgpu run`: locks on bytes of the file "users" in its folder, whether or
 * not a process uses a GPU.
 *
 * A byte's number says whose it is: the inode number of the PID namespace and the pid there. It is
 * locked by an open file description (OFD), so that other descriptors of the file may come and go.
 * A member keeps that description by a mapping, and no descriptor: there is none that the program
 * could close. A forked child shares its parent's, and counts with it; so it stays in the instance,
 * too, at no cost and by no call of ours. exec lets go, and the library joins again when the new
 * program loads it. What does not load the library is no member; it is in the instance as long as
 * the `vgpu run` that leads it lives, which has a byte in a range of its own.
 *
 * Who may open the file may lock any byte, and so keep the instance: its owner, whose folder it is
 * (0700), and root.
 */
#ifndef VGPU_ACCOUNT_MEMBER_H
#define VGPU_ACCOUNT_MEMBER_H

#include <stdbool.h>

/* Its locks are what counts. It is empty until member_first_to_tell() was asked. */
#define MEMBER_FILE "users"

/*
 * Makes this process and its future children members of the instance in `folder` (absolute), until
 * they exec. Does nothing where the file is not there or is no plain file.
 */
void member_join(const char *folder);

/* Whether nobody has asked before in this instance: for what its user is told once. False where
 * that is not known. */
bool member_first_to_tell(const char *folder);

/* Makes this process a leader as long as the descriptor is open. -errno. */
int member_lead(const char *folder);

struct member_counts {
    unsigned members, leaders; /* without the caller's own */
};

/* Asks who is there; stops counting at `most` of each. Never waits. All zero where there is no such
 * file. */
void member_count(const char *folder, unsigned most, struct member_counts *ret_counts);

#endif

/* The folders that hold instances, of all runtime directories that this user may look into. */
#ifndef VGPU_CLI_FOLDERS_H
#define VGPU_CLI_FOLDERS_H

#include <stdbool.h>
#include <sys/types.h>

/* `folder` need not exist, and is the `owner`'s. False: no other folder is wanted. */
typedef bool folder_visit(void *arg, const char *folder, uid_t owner);

/*
 * Visits them: the one that `vgpu run` uses first; those of the user's other sessions; for root,
 * those of all users. What is in another user's folder is that user's: root visits it with that
 * user's rights, so that links in it lead nowhere that its owner could not go. `command` begins the
 * messages. False: some could not be visited, which a message has said.
 */
bool folders_visit(const char *command, folder_visit *visit, void *arg);

#endif

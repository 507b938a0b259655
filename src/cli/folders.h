/* The directories with instances, in all runtime directories that this user may read. */
#ifndef VGPU_CLI_FOLDERS_H
#define VGPU_CLI_FOLDERS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Visits a directory, which need not exist and belongs to `owner`. Returns false to end the walk.
 */
typedef bool folder_visit(void *arg, const char *folder, uid_t owner);

/*
 * Visits the directory that `vgpu run` uses, then those of the user's other sessions, and for root
 * those of all users. Root visits another user's directory with that user's rights, so that links
 * in it lead nowhere that its owner could not go. `command` begins the messages. False: a directory
 * could not be visited, and a message was written.
 */
bool folders_visit(const char *command, folder_visit *visit, void *arg);

#endif

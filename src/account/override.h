/*
 * HAMi's /overrideEnv: lines "NAME=VALUE" that replace variables of the environment. The program's
 * environment itself stays as it is. The file is in the container's root folder: a user who can
 * write there can replace the library, too.
 */
#ifndef VGPU_ACCOUNT_OVERRIDE_H
#define VGPU_ACCOUNT_OVERRIDE_H

#define OVERRIDE_FILE "/overrideEnv"

/* Reads the first 8 KiB of the file, for override_get(). Does nothing if it does not exist. */
void override_read(const char *path);

/* The value of the last line for `name`; NULL: none. Valid until override_read(). */
const char *override_get(const char *name);

#endif

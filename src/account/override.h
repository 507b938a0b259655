/*
 * HAMi's /overrideEnv: lines "NAME=VALUE" that stand for variables of the environment, whatever the
 * program's own are. The environment itself is the program's and stays as it is. The file is in the
 * container's root folder: who can write there can replace the library, too.
 */
#ifndef VGPU_ACCOUNT_OVERRIDE_H
#define VGPU_ACCOUNT_OVERRIDE_H

#define OVERRIDE_FILE "/overrideEnv"

/* Reads the file, for override_get(); of what is longer than 8 KiB the rest is not seen. Without
 * it: nothing. */
void override_read(const char *path);

/* The value of the last line for `name`; NULL: none. Valid until override_read(). */
const char *override_get(const char *name);

#endif

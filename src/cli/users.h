/* Which processes run inside an instance, whether or not they use the GPU. */
#ifndef VGPU_CLI_USERS_H
#define VGPU_CLI_USERS_H

/*
 * How many processes have VGPU_INSTANCE=`dir` in the environment that they were started with, as far as the caller may
 * see; the caller itself does not count.
 */
unsigned users_count(const char *dir);

#endif

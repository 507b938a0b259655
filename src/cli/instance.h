/*
 * Instances on disk: <runtime dir>/instances/<name>/ with the region.
 *
 * An instance is in use while a `vgpu run` that started or joined it lives, while a process that
 * has loaded the library lives in it (account/member.h), or while a process is attached to its
 * region. A process without the library that outlives its `vgpu run` does not keep the instance. A
 * lock on the directory of all instances serialises entering, leaving and removing; a process holds
 * it for milliseconds.
 */
#ifndef VGPU_CLI_INSTANCE_H
#define VGPU_CLI_INSTANCE_H

#include "region/region.h"

#include <limits.h>

#define INSTANCE_REGION "region" /* a file in the instance's directory */

struct instance {
    char name[VGPU_NAME_LEN];
    char dir[PATH_MAX]; /* absolute */
    int users_fd;       /* from member_lead(); -1: not entered */
    bool created;       /* this process made it, and did not join it */
    struct vgpu_limits limits;
};

/* The limits that the user gave; a running instance keeps its other limits. A turn policy that is
 * given (not 0) is no limit: a running instance takes it over. */
struct instance_request {
    struct vgpu_limits limits;
    const char *dir; /* of the instance to join; NULL: `name` in the runtime directory */
    bool has_devices, has_quota, has_host_quota, has_cap;
    struct {
#define COMPUTE_LIMIT(field, ...) bool field;
#include "limits.def"
    } has;
};

/* Makes the instance request->limits.name, or joins it if it is in use. Makes an unused one anew.
 * Returns 0, or -errno after a message; -EEXIST: it is in use with other limits. */
int instance_enter(const struct instance_request *request, struct instance *ret_instance);

/* Whether the instance has the device of that UUID. An instance without --gpu has every device. */
bool instance_has_device(const struct vgpu_limits *limits, const char *uuid);

/* The limits of `has` for the device that vdev `i` of `asked` names; of vdev `i` if that names
 * none. */
const struct vgpu_limit *instance_same_device(const struct vgpu_limits *asked, unsigned i,
                                              const struct vgpu_limits *has);

/* Leaves the instance; removes it if no other process uses it. */
void instance_leave(struct instance *instance);

/* Whether the instance in the directory `dir` is guarded. */
bool instance_is_guarded(const char *dir);

/* Whether a process uses the instance `folder`/`name`. Removes an unused instance, unless another
 * process holds the lock of the directory. Writes messages only if a file cannot be removed. */
bool instance_in_use(const char *folder, const char *name);

#endif

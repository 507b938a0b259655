/*
 * Instances on disk: <runtime dir>/instances/<name>/ with the region, and who uses them.
 *
 * An instance is in use while a `vgpu run` that started it or joined it lives, while a process that
 * has loaded the library lives in it (account/member.h), or while one is attached to its region.
 * What has outlived its `vgpu run` and does not load the library, a static program or one that
 * takes it out of its environment, does not keep it. Entering, leaving and removing are serialised
 * by a lock on the folder of all instances, which is held for milliseconds.
 */
#ifndef VGPU_CLI_INSTANCE_H
#define VGPU_CLI_INSTANCE_H

#include "region/region.h"

#include <limits.h>

#define INSTANCE_REGION "region" /* the file, in an instance's folder */

struct instance {
    char name[VGPU_NAME_LEN];
    char dir[PATH_MAX]; /* absolute */
    int users_fd;       /* of member_lead(); -1: not entered */
    bool created;       /* by us, not joined */
    struct vgpu_limits limits;
};

/*
 * Which of the limits the user gave; the others match whatever a running instance has. A turn
 * policy that is given (not 0) is no limit: a running instance takes it over.
 */
struct instance_request {
    struct vgpu_limits limits;
    const char *dir; /* of the instance to join, wherever it is; NULL: by its name, in the runtime
                        directory */
    bool has_devices, has_quota, has_host_quota, has_cap;
    struct {
#define COMPUTE_LIMIT(field, ...) bool field;
#include "limits.def"
    } has;
};

/*
 * Makes the instance request->limits.name, or joins it if it is in use; one that nobody uses is
 * made anew. On failure a message has been written and -errno is returned (-EEXIST: it is in use
 * with other limits).
 */
int instance_enter(const struct instance_request *request, struct instance *ret_instance);

/* Whether the instance has the device of that UUID: one that names none has all. */
bool instance_has_device(const struct vgpu_limits *limits, const char *uuid);

/* The limits that `has` has for the device of vdev `i` of `asked`, where that names one; else those
 * of the vdev. */
const struct vgpu_limit *instance_same_device(const struct vgpu_limits *asked, unsigned i,
                                              const struct vgpu_limits *has);

/* Gives up our use; removes the instance if it was the last. */
void instance_leave(struct instance *instance);

/* Whether a guard keeps the limits of the instance in the folder `dir`. */
bool instance_is_guarded(const char *dir);

/*
 * Whether anybody uses the instance in `folder`/`name`. If not, it is removed, unless somebody is
 * changing the folder, which is not waited for. Messages only where something cannot be removed.
 */
bool instance_in_use(const char *folder, const char *name);

#endif

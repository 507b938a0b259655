/* The audit: what NVML says that the instance holds, against what is accounted for. */
#ifndef VGPU_GUARD_AUDIT_H
#define VGPU_GUARD_AUDIT_H

#include "guard/nvidia/nvidia.h"

struct audit;

/* Loads NVML from this path. -ENOENT: it does not load; -EIO: it is not NVML; -ENOMEM. */
int audit_new(const char *nvml, struct audit **ret_audit);
int audit_begin(struct audit *audit); /* starts NVML, which takes some 20 ms. -EIO */
void audit_free(struct audit *audit); /* NULL is fine */

/* Compares; by the watch thread. Takes notify->lock where it has to be sure. True: the instance
 * holds more than is accounted for, or NVML has not answered for BLIND_NS. */
bool audit_run(struct audit *audit, struct nvidia *nvidia);

#endif

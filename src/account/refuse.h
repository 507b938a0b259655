/*
 * Refusals of memory: a record for `vgpu ps`, and a line for the user.
 */
#ifndef VGPU_ACCOUNT_REFUSE_H
#define VGPU_ACCOUNT_REFUSE_H

#include "account/ledger.h"

/*
 * Records a refusal in the region (size, used, quota, pid, api). Writes one line to stderr, once
 * per instance, vdev and api, unless the log level is below 1.
 */
void ledger_refuse(struct vgpu_ledger *ledger, unsigned vdev, uint64_t size_bytes, const char *api);

#endif

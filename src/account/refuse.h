/*
 * What happens when memory is refused: a record for `vgpu ps`, a line for the user.
 */
#ifndef VGPU_ACCOUNT_REFUSE_H
#define VGPU_ACCOUNT_REFUSE_H

#include "account/ledger.h"

/*
 * Counts a refusal in the region (size, used, quota, pid, api), and writes the one line a user
 * needs to stderr, once per instance, vdev and api, unless the log level is below 1.
 */
void ledger_refuse(struct vgpu_ledger *ledger, unsigned vdev, uint64_t size_bytes, const char *api);

#endif

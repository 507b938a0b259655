/* What the files of the gate share. */
#ifndef VGPU_HOOK_GATE_INTERNAL_H
#define VGPU_HOOK_GATE_INTERNAL_H

#include "hook/gate.h"

/* Where there are no turns any more: nothing waits at a gate, whatever becomes of the page, and nobody for this one. */
void gate_stay_away(struct sched_client *client);

/* The gate's thread, started if need be. False: there can be none. Under the gate's mutex. */
bool gate_start_helper(struct gate *gate);

/* Work of the process waits from now on. Without the mutex. */
void gate_wake_helper(struct gate *gate);

#endif

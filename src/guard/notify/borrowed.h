/* Descriptors of a caller, borrowed for as long as a call is made for it. Under notify->lock. */
#ifndef VGPU_GUARD_BORROWED_H
#define VGPU_GUARD_BORROWED_H

#include "guard/notify/notify.h"

struct borrowed {
    unsigned count;
    int fd[DEVICE_GPUS_MAX];
    struct device_node node[DEVICE_GPUS_MAX];
};

/* The devices that it has open, as far as they can be had. */
void borrow_gpus(struct notify *notify, pid_t tid, struct borrowed *ret_borrowed);
/* The capability that is the caller's descriptor *number, which becomes ours; UINT64_MAX where it
 * is none. */
void borrow_capability(struct notify *notify, pid_t tid, uint64_t *number,
                       struct borrowed *ret_borrowed);
void borrowed_close(struct borrowed *borrowed);

#endif

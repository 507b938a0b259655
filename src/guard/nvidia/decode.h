/*
 * The calls of NVIDIA's control device that matter to the guard: from their bytes to what is to be
 * done. Pure: works on copies of the caller's bytes and touches nothing else. Whatever the bytes
 * are, the answer is one of
 *   RM_CONTINUE  the driver may run the call as the caller has made it. Nothing that was read can
 *                be relied upon then.
 *   RM_EXECUTE   the guard runs it, on the copies that were looked at.
 *   RM_REFUSE    nobody runs it; the caller gets `refusal` in its structure (decode_set_status()).
 *
 * Never CONTINUE: whatever makes, frees or duplicates objects, but clients.
 *
 * A call by way of XFER can only be executed or refused: XFER's structure too can change after it
 * was read. Whoever unwraps one answers -EINVAL where the call inside would CONTINUE.
 */
#ifndef VGPU_GUARD_DECODE_H
#define VGPU_GUARD_DECODE_H

#include "guard/notify/filter.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"

#include <stdbool.h>

enum rm_action { RM_CONTINUE, RM_EXECUTE, RM_REFUSE };

enum rm_kind {
    RM_KIND_ALLOC,
    RM_KIND_FREE,
    RM_KIND_DUP,
    RM_KIND_HEAP_ALLOC, /* of the card's memory (`charges`), of the host's, or of addresses:
                           class_id tells */
    RM_KIND_HEAP_FREE,
    RM_KIND_HEAP_OTHER,
    RM_KIND_CONTROL,
    RM_KIND_EXPORT, /* controls by which a file comes to hold objects, */
    RM_KIND_IMPORT, /* and objects become duplicates of what a file holds */
    RM_KIND_DMABUF, /* as EXPORT, on a card's device, to a file of another kind; not through the
                       client's file */
};

#define RM_PARAMS_MAX 4096u /* nested parameters that are copied at most */
/* The smallest piece of memory that the driver takes from the card. */
#define RM_CHARGE_UNIT 65536u

struct rm_call {
    uint32_t key; /* RM_KEY of the call, a XFER unwrapped */
    enum rm_kind kind;
    enum rm_action action;
    uint32_t refusal;   /* RM_REFUSE: the status to give */
    uint32_t status_at; /* where the call's own structure has its status */
    /* What the kind has of these, else 0. `handle`: the object to be made (0: the driver chooses),
     * freed, controlled.
     */
    uint32_t client, parent, handle, class_id, source_client, source_handle, control;
    uint32_t function; /* enum rm_heap_function */
    uint64_t params;   /* address in the caller of what is nested; 0: nothing */
    /*
     * RM_EXECUTE: how much of it is to be copied, else 0. RM_ALLOC: as much of it as can be read;
     * the driver takes the size from the class, so it is to be given a buffer of RM_PARAMS_MAX,
     * which no class has more than. RM_CONTROL and the like: exactly this much.
     */
    uint32_t params_bytes;
    bool shows_file;     /* the first 64 bits of `params` number a file of the caller's that it must
                            have open */
    uint32_t holds;      /* memory of the client's, by decode_params(): of which the driver has a
                            duplicate from now on */
    bool schedules;      /* control, by decode_params(): of channels; they run from now on */
    bool may_unschedule; /* or may not */
    bool charges;        /* asks for memory of the card, */
    bool charge_keeps;   /* (the driver may take more than it says: decode_result()) */
    uint64_t charge_bytes; /* at most this much: the size in whole pages */
    /* RM_CTRL_FB_GET_INFO, by decode_params(): the array nested in what is nested. */
    uint64_t list;
    uint32_t list_bytes;
};

/*
 * XFER: key and address of the call that is meant. -EINVAL where it is none that may come that way:
 * a number that does not fit in a byte, another XFER, no address, nothing or more than
 * RM_PARAMS_MAX bytes.
 */
int decode_xfer(const struct rm_xfer *xfer, uint32_t *ret_key, uint64_t *ret_address);

/*
 * The calls that the filter traps on this branch: on the control device every structure that
 * decode_call() accepts, and XFER. `limits`: also those that only limits on memory or channels ask
 * for; most of a program's start consists of them.
 */
void decode_filter(const struct rm_branch *branch, bool limits, struct filter_calls *ret_calls);

/*
 * `arg`: RM_KEY_SIZE(key) bytes, of no special alignment. `strict`: the program may not switch
 * channels off and on. -EINVAL: unknown, or XFER itself (the caller gets EINVAL, as from the
 * driver).
 */
int decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                struct rm_call *ret_call);

/*
 * For every call whose action is RM_EXECUTE, once what is nested was copied (bytes 0 where nothing
 * was): fills charges, charge_bytes and list, may turn the action into RM_REFUSE. `bytes` may be
 * less than params_bytes. -EINVAL: another action, or more bytes than were asked for.
 */
int decode_params(struct rm_call *call, const void *params, size_t bytes);

/* Puts in place of what a program wants more of than it may have, what it may have: longer time
 * slices than these would keep the card from others. (libcuda asks for 2 ms.) */
#define RM_TIMESLICE_MOST_US 3000u
void decode_bound(const struct rm_call *call, void *params, size_t bytes);

/*
 * What RM_KIND_EXPORT, RM_KIND_IMPORT and RM_KIND_DMABUF are about: objects of `client`, and a
 * file, which is told by the number of a descriptor of whoever makes the call. The file has
 * numbered places for objects.
 */
struct rm_transfer {
    int32_t fd;                     /* RM_KIND_DMABUF: -1: a new one */
    uint32_t parent;                /* import: of the new objects */
    uint32_t first;                 /* the first place in question */
    unsigned count;                 /* of them */
    uint32_t handle[RM_EXPORT_MAX]; /* 0: none. Of an import: what the driver has made of it, after
                                       the call */
};

/*
 * `bytes`: of `data`, the call's own structure for RM_KIND_DMABUF, else what is nested. -EINVAL:
 * another call, a refused one, too few bytes, or more objects than the driver takes.
 */
int decode_transfer(const struct rm_branch *branch, const struct rm_call *call, const void *data,
                    size_t bytes, struct rm_transfer *ret_transfer);
void decode_set_fd(const struct rm_call *call, void *data, int fd);

/*
 * After the driver has run it: its status and, where that is RM_OK, the object's handle and, of a
 * call that charges, the size that it says it has allocated, which is what it counts for NVML, and
 * what to charge: never less, in whole RM_CHARGE_UNITs.
 */
struct rm_result {
    uint32_t status, handle;
    uint64_t bytes, charge_bytes;
};

void decode_result(const struct rm_call *call, const void *arg, const void *params, size_t bytes,
                   struct rm_result *ret_result);

/* Writes a status into `arg`. */
void decode_set_status(const struct rm_call *call, void *arg, uint32_t status);

#endif

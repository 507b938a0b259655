/*
 * The calls of NVIDIA's control device that matter to the guard: from their bytes to what is to be
 * done. Pure: works on copies of the caller's bytes and touches nothing else.
 *
 * Whatever makes, frees or duplicates an object is never RM_CONTINUE, except making a client.
 * call.c lets events on a GPU's node continue as well.
 *
 * A call by way of XFER can only be executed or refused, as XFER's structure can change after it
 * was read, too. The caller of decode_xfer() answers -EINVAL if the call inside is RM_CONTINUE.
 */
#ifndef VGPU_GUARD_DECODE_H
#define VGPU_GUARD_DECODE_H

#include "guard/notify/filter.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"

#include <stdbool.h>

enum rm_action {
    RM_CONTINUE, /* the driver may run the call as it is in the caller, which can change it still */
    RM_EXECUTE,  /* the guard runs it, on the copies that were checked */
    RM_REFUSE,   /* the call is not run; decode_set_status() gives the caller `refusal` */
};

enum rm_kind {
    RM_KIND_ALLOC,
    RM_KIND_FREE,
    RM_KIND_DUP,
    RM_KIND_HEAP_ALLOC, /* of device memory (`charges`), host memory or addresses: class_id tells */
    RM_KIND_HEAP_FREE,
    RM_KIND_HEAP_OTHER,
    RM_KIND_CONTROL,
    RM_KIND_EXPORT, /* controls by which a file comes to hold objects, */
    RM_KIND_IMPORT, /* and by which objects are made of what a file holds */
    RM_KIND_DMABUF, /* as EXPORT, on a GPU, to a file of another kind */
};

#define RM_PARAMS_MAX 4096u /* nested parameters that are copied at most */
/* The smallest piece of device memory that the driver gives. */
#define RM_CHARGE_UNIT 65536u

struct rm_call {
    uint32_t key; /* RM_KEY of the call, a XFER unwrapped */
    enum rm_kind kind;
    enum rm_action action;
    uint32_t refusal;   /* RM_REFUSE: the status to give */
    uint32_t status_at; /* where the call's own structure has its status */
    /* What the kind has of these, else 0. `handle`: the object to be made (0: the driver chooses),
     * freed or controlled. */
    uint32_t client, parent, handle, class_id, source_client, source_handle, control;
    uint32_t function; /* enum rm_heap_function */
    uint64_t params;   /* address in the caller of nested parameters; 0: none */
    /*
     * RM_EXECUTE: how many of its bytes to copy, else 0. RM_ALLOC: as many as can be read. The
     * driver takes the size from the class, so it has to get a buffer of RM_PARAMS_MAX bytes; no
     * class has more. RM_CONTROL and the like: exactly this many.
     */
    uint32_t params_bytes;
    bool shows_file; /* the first 64 bits of `params` are the number of a descriptor that the caller
                        must have */
    uint32_t holds;  /* by decode_params(): memory of the client's that the driver duplicates with
                        this call */
    bool schedules;  /* by decode_params(): a control by which channels start to run */
    bool may_unschedule;   /* it may also stop them */
    bool charges;          /* it asks for device memory, */
    bool charge_keeps;     /* of which the driver may take more than it says: decode_result(), */
    uint64_t charge_bytes; /* and at most this much: the size in whole pages */
    /* RM_CTRL_FB_GET_INFO, by decode_params(): the array that the parameters point to. */
    uint64_t list;
    uint32_t list_bytes;
};

/*
 * XFER: key and address of the call inside. -EINVAL: none that may come that way: a number beyond a
 * byte, another XFER, no address, no bytes or more than RM_PARAMS_MAX.
 */
int decode_xfer(const struct rm_xfer *xfer, uint32_t *ret_key, uint64_t *ret_address);

/*
 * The calls that the filter traps on this branch: on the control device every structure that
 * decode_call() accepts, and XFER. `limits`: also those that only limits on memory or channels ask
 * for; most of a program's start consists of them.
 */
void decode_filter(const struct rm_branch *branch, bool limits, struct filter_calls *ret_calls);

/*
 * `arg`: RM_KEY_SIZE(key) bytes, of any alignment. `strict`: the program may not switch channels
 * off and on. -EINVAL: unknown, or XFER itself; the caller gets EINVAL, as from the driver.
 */
int decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                struct rm_call *ret_call);

/*
 * For every call whose action is RM_EXECUTE, once its nested parameters are copied (bytes 0: there
 * are none). Fills charges, charge_bytes, holds, schedules and list, and may turn the action into
 * RM_REFUSE. `bytes` may be less than params_bytes. -EINVAL: another action, or more bytes than
 * that.
 */
int decode_params(struct rm_call *call, const void *params, size_t bytes);

/* Lowers what a program asks for to what it may have. Longer time slices would keep other programs
 * from the GPU; libcuda asks for 2 ms. */
#define RM_TIMESLICE_MOST_US 3000u
void decode_bound(const struct rm_call *call, void *params, size_t bytes);

/*
 * What RM_KIND_EXPORT, RM_KIND_IMPORT and RM_KIND_DMABUF are about: objects of `client`, and a file
 * with numbered places for objects. A descriptor of the process that makes the call names the file.
 */
struct rm_transfer {
    int32_t fd;                     /* RM_KIND_DMABUF: -1: a new file */
    uint32_t parent;                /* import: of the new objects */
    uint32_t first;                 /* the first place in question */
    unsigned count;                 /* of them */
    uint32_t handle[RM_EXPORT_MAX]; /* 0: none; of an import, what the driver made */
};

/*
 * `data`: for RM_KIND_DMABUF the call's own structure, else its nested parameters. -EINVAL: another
 * kind of call, a refused one, too few bytes, or more objects than the driver takes.
 */
int decode_transfer(const struct rm_branch *branch, const struct rm_call *call, const void *data,
                    size_t bytes, struct rm_transfer *ret_transfer);
void decode_set_fd(const struct rm_call *call, void *data, int fd);

/*
 * After the driver has run the call: its status and, if that is RM_OK, the object's handle. A call
 * that charges has also `bytes`, the size that the driver says it has allocated and counts for
 * NVML, and `charge_bytes`: never less, in whole RM_CHARGE_UNITs.
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

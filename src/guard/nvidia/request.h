/*
 * One trapped call, from its arrival to its answer. The record is made once; each step adds to it,
 * and the next steps use what is there.
 *
 *   read      copies the caller's bytes, once; without the lock. The program can write what the
 *             call's address leads to at any time, so only the copies are looked at from here on.
 *   identify  the caller's process and its open file, by the kernel's word
 *   check     whether the call may be made, and where its memory or channel will be
 *   execute   the ioctl through our duplicate of the file, with the copies
 *   note      what the driver has done, in the object model (this is the charge) and the tables;
 *             account_settle() shows it in the region
 *   write     where the driver changed the copies, the caller's bytes; without the lock
 */
#ifndef VGPU_GUARD_REQUEST_H
#define VGPU_GUARD_REQUEST_H

#include "guard/notify/trap.h"
#include "guard/nvidia/nvidia.h"

#define REQUEST_LIST_MAX (RM_FB_INFO_MAX * sizeof(struct rm_fb_info_item))

/* Where what a call makes will be. */
struct rm_place {
    unsigned vdev;   /* of memory, of a channel */
    bool is_channel; /* it will be switched: */
    uint32_t subdevice, group;
};

/* The bytes of a call on the control device, as the caller had them and as the driver left them. */
struct rm_bytes {
    uint64_t address; /* of `arg` in the caller */
    bool indirect;    /* by way of XFER */
    bool has_rights;  /* the call has the address of a mask of rights, copied to `rights` */
    uint32_t arg_bytes, rights;
    size_t params_bytes, list_bytes;
    _Alignas(8) uint8_t arg[RM_PARAMS_MAX], arg_before[RM_PARAMS_MAX];
    _Alignas(8) uint8_t params[RM_PARAMS_MAX], params_before[RM_PARAMS_MAX];
    _Alignas(8) uint8_t list[REQUEST_LIST_MAX], list_before[REQUEST_LIST_MAX];
};

/* The same of a call on the UVM device. */
struct uvm_bytes {
    int rc; /* of reading them: of no interest where the file is another device's */
    size_t status_at;
    union {
        struct uvm_map_external map;
        struct uvm_unmap_external unmap;
        struct {
            uint64_t base, rest[2];
        } range;
        uint8_t bytes[1];
    };
};

struct request {
    struct nvidia *nvidia;
    const struct trap *trap;
    /* By request_identify(). */
    struct guard_process *process;
    struct guard_file *file;
    /* Of a call on the control device or a GPU. */
    struct rm_call call;
    struct rm_place place;
    struct rm_result result;
    struct rm_transfer transfer;   /* exports.c */
    struct guard_file *other_file; /* the file that the transfer names; NULL: it will be made */
    uint32_t other_number;         /* of that file */
    struct rm_bytes rm;
    struct uvm_bytes uvm;
};

/* Under notify->lock. Errors of lifetime_file() and lifetime_process(). */
int request_identify(struct request *request);

static inline bool request_valid(const struct request *request)
{
    return trap_valid(request->nvidia->notify, request->trap);
}

/* The steps of a kind of call. `read` and `act` return 0 to go on, or the answer. */
struct request_steps {
    int (*read)(struct request *request);
    int (*act)(struct request *request); /* under notify->lock, from identify to note */
    int (*write)(struct request *request);
};

extern const struct request_steps call_steps;    /* call.c: on the control device and GPUs */
extern const struct request_steps uvm_steps;     /* uvm.c: ioctls of the UVM device */
extern const struct request_steps managed_steps; /* uvm.c: mmap() of the UVM device */

/* admit.c: whether the call may be made. The status to refuse it with, or RM_OK. */
uint32_t request_check(struct request *request);

/* account.c: the driver has taken the call. -errno: what it has made is gone again. */
int account_note(struct request *request);
/* An object that was made of one that is not known here: if it is memory it is noted, and charged
 * in strict mode. A status; not RM_OK: it must not exist. */
uint32_t account_foreign(struct request *request, uint32_t parent, uint32_t handle);
/* An object that the call has made must not exist: it is freed again. */
void account_take_back(struct request *request, uint32_t parent, uint32_t handle);

/*
 * exports.c: calls by which files come to hold objects, or objects are made of what files hold.
 * `data` is the structure that names the file; it has the caller's number of it before
 * exports_begin() and after exports_end(), and ours in between. exports_begin(): 0, the status to
 * refuse the call with, or -errno. After 0 exports_end() has to be called, with the call's status
 * or -errno; it returns those or others.
 */
int exports_begin(struct request *request, void *data, size_t bytes);
int exports_end(struct request *request, void *data, size_t bytes, int status);

/* map_proxy.c: makes the mapping from here, and fills its status in. -EINTR: the caller is gone;
 * another -errno: UVM's. */
int map_proxy_map(struct request *request);
void map_proxy_done(struct map_proxy *map_proxy);

/* view.c: what the answer says of the device becomes the program's share of it. */
void view_rewrite(struct request *request);

#endif

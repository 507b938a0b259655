/*
 * The fake driver's own calls on nvidiactl: work for the simulated GPUs, and its book as figures.
 * The numbers are none of the driver's. As there, the outcome is in `status`.
 */
#ifndef VGPU_TESTS_FAKERM_ABI_H
#define VGPU_TESTS_FAKERM_ABI_H

#include "guard/nvidia/abi.h"

/* Kernels for a channel; they run one after the other. With `wait` the call returns as FAKERM_WAIT
 * does. */
struct fakerm_submit {
    uint32_t client, channel;
    uint64_t duration_ns, count;
    uint32_t status, wait;
};

/* Returns once nothing is queued on the channel, on all of the client's for 0. */
struct fakerm_wait {
    uint32_t client, channel, status, pad;
};

/* What became of a channel's work; of all channels of the client for 0. */
struct fakerm_work {
    uint32_t client, channel;
    uint64_t completed, pending, busy_ns;
    uint32_t disabled;          /* channels that are switched off */
    uint32_t scheduled, wedged; /* that may run; that never run, having been switched off twice */
    uint32_t status;
};

/* The book. `pid` and `gpu` are given; pid 0: the caller. */
struct fakerm_stats {
    uint32_t pid, gpu;
    uint64_t pid_bytes, pid_peak;   /* as NVML counts them */
    uint64_t private, owned, duped; /* the same in parts, and what the process has of others */
    uint64_t gpu_size, gpu_used, gpu_peak;
    uint64_t nobody; /* of gpu_used: what only UVM holds, so that it is in no process's figure */
    uint64_t allocations, refused; /* of video memory on this GPU */
    uint64_t biggest;              /* the biggest allocation that was made, in bytes as asked for */
    uint64_t pid_busy_ns, gpu_busy_ns;    /* kernels only, without switches */
    uint64_t switches;                    /* from one process to another */
    uint64_t now_ns;                      /* by the device's clock */
    uint64_t disable_calls, enable_calls; /* of all GPUs */
    uint32_t last_allocation_pid;         /* the process that made the call, of all GPUs */
    uint32_t channels, channels_disabled;
    uint32_t clients, objects, files; /* of all GPUs */
    uint32_t wedged; /* channels of this GPU, those that are gone too: see fakerm_work */
    uint32_t status, pad;
};

/* Peaks become what is used now, `biggest`, `wedged`, the counts of allocations and of calls 0. */
struct fakerm_reset {
    uint32_t status, pad;
};

/* Sent to a control device: it comes to hold these objects, whoever's they are, as a dma-buf
 * does. */
struct fakerm_hold {
    uint32_t client, total, first, count;
    uint32_t handle[RM_DMABUF_MAX];
    uint32_t status, pad;
};

/* Sent by the fake itself, to find out which file it has got. */
struct fakerm_who {
    uint64_t file;
};

#define FAKERM_WHO    RM_IOCTL(0x78, sizeof(struct fakerm_who))
#define FAKERM_HOLD   RM_IOCTL(0x79, sizeof(struct fakerm_hold))
#define FAKERM_RESET  RM_IOCTL(0x7a, sizeof(struct fakerm_reset))
#define FAKERM_WORK   RM_IOCTL(0x7b, sizeof(struct fakerm_work))
#define FAKERM_WAIT   RM_IOCTL(0x7c, sizeof(struct fakerm_wait))
#define FAKERM_SUBMIT RM_IOCTL(0x7d, sizeof(struct fakerm_submit))
#define FAKERM_STATS  RM_IOCTL(0x7e, sizeof(struct fakerm_stats))

/* What the driver has besides guard/nvidia/abi.h, as far as the fake knows it. */
enum fakerm_status {
    RM_ERR_INSERT_DUPLICATE_NAME = 0x19,
    RM_ERR_INVALID_CLASS = 0x22,
    RM_ERR_INVALID_DEVICE = 0x26,
    RM_ERR_INVALID_FLAGS = 0x29,
    RM_ERR_INVALID_OBJECT_PARENT = 0x36,
    RM_ERR_INVALID_OFFSET = 0x37,
    RM_ERR_INVALID_PARAM_STRUCT = 0x3a,
    RM_ERR_INVALID_STATE = 0x40,
    RM_ERR_OUT_OF_RANGE = 0x5b,
    RM_ERR_STATE_IN_USE = 0x63,
    RM_ERR_UVM_ADDRESS_IN_USE = 0x68,
};

struct fakerm_alloc_memory { /* RM_ESC_ALLOC_MEMORY */
    uint32_t root, parent, handle, class_id, flags, pad0;
    uint64_t memory, limit;
    uint32_t status, pad1;
    int32_t fd;
    uint32_t pad2;
};

_Static_assert(sizeof(struct fakerm_alloc_memory) == 56, "ALLOC_MEMORY");

#define FAKERM_GPUS_MAX 16

/* The UUID of a GPU of the fake: constant, so that everybody can name it. */
static inline void fakerm_uuid(unsigned gpu, uint8_t ret_uuid[16])
{
    static const uint8_t head[15] = {0xfa, 0xce, 0x0f, 0xd0, 0x11, 0x22, 0x43, 0x44,
                                     0x85, 0x56, 0x67, 0x78, 0x89, 0x9a, 0xab};

    for (unsigned i = 0; i < 15; i++)
        ret_uuid[i] = head[i];
    ret_uuid[15] = (uint8_t)gpu;
}

#endif

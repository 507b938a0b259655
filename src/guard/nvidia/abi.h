/*
 * The part of the NVIDIA driver's user ABI that the guard knows: calls on /dev/nvidiactl and
 * /dev/nvidia-uvm.
 *
 * Taken from NVIDIA's open kernel modules, branches 550 to 595 (src/common/sdk/nvidia/inc/nvos.h
 * and ctrl/, nvidia/arch/nvalloc/unix/include/nv_escape.h, kernel-open/nvidia-uvm/uvm_ioctl.h).
 * What differs between branches is in guard/nvidia/branch.h. The definitions are our own: names and
 * layout are the driver's, and only members that are used have names.
 *
 * The control device tells an ioctl by number and size, not by type and direction (nv.c,
 * nvidia_ioctl()); the UVM device by the whole word. Results come back in the structure: the system
 * call succeeds although the call failed.
 */
#ifndef VGPU_GUARD_ABI_H
#define VGPU_GUARD_ABI_H

#include <linux/ioctl.h>
#include <stddef.h>
#include <stdint.h>

/* /dev/nvidia*; nvidia-uvm has a major number of its own, see /proc/devices. */
#define RM_MAJOR     195
#define RM_MINOR_CTL 255 /* /dev/nvidiactl; 0.. are the devices */

enum rm_escape {
    RM_ESC_ALLOC_MEMORY = 0x27, /* on /dev/nvidiaN */
    RM_ESC_ALLOC_OBJECT = 0x28,
    RM_ESC_FREE = 0x29,
    RM_ESC_CONTROL = 0x2a,
    RM_ESC_ALLOC = 0x2b,
    RM_ESC_DUP_OBJECT = 0x34,
    RM_ESC_SHARE = 0x35,
    RM_ESC_VID_HEAP_CONTROL = 0x4a,
    RM_ESC_XFER = 0xd3,
    RM_ESC_EXPORT_DMABUF = 0xd9, /* on /dev/nvidiaN */
};

enum rm_status {
    RM_OK = 0,
    RM_ERR_INSUFFICIENT_RESOURCES = 0x1a,
    RM_ERR_INSUFFICIENT_PERMISSIONS = 0x1b,
    RM_ERR_INVALID_ADDRESS = 0x1e,
    RM_ERR_INVALID_ARGUMENT = 0x1f,
    RM_ERR_INVALID_CLIENT = 0x23,
    RM_ERR_INVALID_PARAMETER = 0x3b,
    RM_ERR_NO_MEMORY = 0x51,
    RM_ERR_NOT_SUPPORTED = 0x56,
    RM_ERR_OBJECT_NOT_FOUND = 0x57,
};

enum rm_class {
    RM_CLASS_ROOT = 0x0,
    RM_CLASS_ROOT_NON_PRIV = 0x1,
    RM_CLASS_ROOT_CLIENT = 0x41,
    RM_CLASS_EVENT = 0x5,
    RM_CLASS_EVENT_KERNEL = 0x78,
    RM_CLASS_EVENT_OS = 0x79,
    RM_CLASS_EVENT_KERNEL_EX = 0x7e,
    RM_CLASS_MEMORY_SYSTEM = 0x3e,
    RM_CLASS_MEMORY_LOCAL_USER =
        0x40, /* the only one by which a program gets video memory of a size of its choice */
    RM_CLASS_MEMORY_OS_DESCRIPTOR = 0x71,
    RM_CLASS_MEMORY_VIRTUAL = 0x50a0,
    RM_CLASS_DEVICE = 0x80,
    RM_CLASS_SUBDEVICE = 0x2080,
    RM_CLASS_CHANNEL_GROUP = 0xa06c,
    RM_CLASS_MEMORY_EXPORT = 0xe0, /* holds memory that controls put into it */
    RM_CLASS_MEMORY_FABRIC =
        0xf8, /* an address on the fabric; holds the memory that it is made for */
    RM_CLASS_THIRD_PARTY_P2P = 0x503c,
    RM_CLASS_PROFILER = 0xb1cc,
    RM_CLASS_PROFILER_DEVICE = 0xb2cc,
    /* These have to name an open capability of nvidia-caps. */
    RM_CLASS_FABRIC_MANAGER = 0xf,
    RM_CLASS_IMEX = 0xf1,
    RM_CLASS_MIG_INSTANCE = 0xc637,
    RM_CLASS_MIG_COMPUTE_INSTANCE = 0xc638,
    RM_CLASS_MIG_CONFIG = 0xc639,
    RM_CLASS_MIG_MONITOR = 0xc640,
};

/* Channels by architecture, from GF100_CHANNEL_GPFIFO on, which is in the list of every chip. */
static inline int rm_class_is_channel(uint32_t class_id)
{
    switch (class_id) {
    case 0x906f: /* GF100 */
    case 0xa06f: /* KEPLER */
    case 0xa16f:
    case 0xa26f:
    case 0xb06f: /* MAXWELL */
    case 0xc06f: /* PASCAL */
    case 0xc36f: /* VOLTA */
    case 0xc46f: /* TURING */
    case 0xc56f: /* AMPERE */
    case 0xc86f: /* HOPPER */
    case 0xc96f: /* BLACKWELL */
    case 0xca6f:
        return 1;
    default:
        return 0;
    }
}

/* All of them end like that; another one is of a chip that is not known here. */
static inline int rm_class_looks_like_channel(uint32_t class_id)
{
    return (class_id & 0xff) == 0x6f && class_id <= 0xffff;
}

static inline int rm_class_is_event(uint32_t class_id)
{
    return class_id == RM_CLASS_EVENT || class_id == RM_CLASS_EVENT_KERNEL ||
           class_id == RM_CLASS_EVENT_OS || class_id == RM_CLASS_EVENT_KERNEL_EX;
}

static inline int rm_class_is_profiler(uint32_t class_id)
{
    return class_id == RM_CLASS_PROFILER || class_id == RM_CLASS_PROFILER_DEVICE;
}

struct rm_alloc_short { /* NVOS21 */
    uint32_t root, parent, handle, class_id;
    uint64_t params;
    uint32_t params_bytes, status;
};

struct rm_alloc { /* NVOS64 */
    uint32_t root, parent, handle, class_id;
    uint64_t params, rights;
    uint32_t params_bytes, flags, status, pad;
};

/* Flags: `params` is not the structure that belongs to the class. */
#define RM_ALLOC_SERIALIZED 0x1u

struct rm_alloc_object { /* NVOS05: an allocation without parameters */
    uint32_t root, parent, handle, class_id, status;
};

struct rm_free { /* NVOS00 */
    uint32_t root, parent, handle, status;
};

struct rm_dup_object { /* NVOS55 */
    uint32_t client, parent, handle, source_client, source_handle, flags, status;
};

struct rm_control { /* NVOS54 */
    uint32_t client, object, cmd, flags;
    uint64_t params;
    uint32_t params_bytes, status;
};

#define RM_CONTROL_SERIALIZED 0x4u /* flags: `params` is not the structure that belongs to cmd */

struct rm_xfer { /* any call, indirectly */
    uint32_t nr, size;
    uint64_t params;
};

struct rm_memory_params { /* NV_MEMORY_ALLOCATION_PARAMS, behind `params` of the memory classes */
    uint32_t owner, type, flags, width, height;
    int32_t pitch;
    uint32_t attr, attr2, format, compression, zcull, pad0;
    uint64_t range_low, range_high, size, alignment, offset, limit, address;
    uint32_t tag0, va_space, internal_flags, tag;
    int32_t numa_node;
    uint32_t pad1;
};

struct rm_fabric_params { /* NV00F8_ALLOCATION_PARAMETERS */
    uint64_t alignment, size, page_bytes;
    uint32_t flags, pad0;
    uint64_t offset;
    uint32_t memory, map_flags; /* memory: of the same client; 0: none yet */
};

#define RM_MEMORY_FLAG_FIXED_ADDRESS   0x10u
#define RM_MEMORY_FLAG_ALIGNMENT_HINT  0x80u
#define RM_MEMORY_FLAG_ALIGNMENT_FORCE 0x100u
#define RM_MEMORY_FLAG_HANDLE_GIVEN    0x4000u
#define RM_MEMORY_FLAG_VIRTUAL         0x80000u

#define RM_MEMORY_ATTR_LOCATION(attr) ((attr) >> 25 & 3u)
#define RM_MEMORY_LOCATION_VIDMEM     0u

#define RM_MEMORY_ATTR_PAGE_SIZE(attr)   ((attr) >> 23 & 3u)
#define RM_MEMORY_PAGE_DEFAULT           0u
#define RM_MEMORY_PAGE_4K                1u
#define RM_MEMORY_PAGE_BIG               2u
#define RM_MEMORY_PAGE_HUGE              3u
#define RM_MEMORY_ATTR2_HUGE_SIZE(attr2) ((attr2) >> 20 & 3u)
#define RM_MEMORY_HUGE_512M              2u
#define RM_MEMORY_HUGE_256G              3u

enum rm_heap_function {
    RM_HEAP_ALLOC_SIZE = 2,
    RM_HEAP_FREE = 3,
    RM_HEAP_INFO = 5,
    RM_HEAP_ALLOC_TILED_PITCH = 6,
    RM_HEAP_ALLOC_SIZE_RANGE = 14,
    RM_HEAP_REACQUIRE_COMPRESSION = 15,
    RM_HEAP_RELEASE_COMPRESSION = 16,
    RM_HEAP_GET_MEM_ALIGNMENT = 18,
};

struct rm_share { /* NVOS57 */
    uint32_t client, object, target, mask;
    uint16_t type;
    uint8_t action, pad;
    uint32_t status;
};

struct rm_handle_info { /* CLIENT_GET_HANDLE_INFO, on the client */
    uint32_t object, index;
    uint64_t result;
};

#define RM_HANDLE_PARENT 1u
#define RM_HANDLE_CLASS  2u

#define RM_SHARE_DUP         0x1u
#define RM_SHARE_WITH_CLIENT 3u /* `target` */
#define RM_SHARE_COMPOSE     4u /* in addition to what is allowed already */

struct rm_vid_heap_control { /* NVOS32 */
    uint32_t root, parent, function, va_space;
    uint16_t ivc_heap, pad0;
    uint32_t status;
    uint64_t total, free;
    union {
        struct {
            uint32_t owner, handle, type, flags, attr, format, compression, zcull, partition_stride,
                width, height, pad;
            uint64_t size, alignment, offset, limit, address, range_low, range_high;
            uint32_t attr2, tag;
            int32_t numa_node;
        } alloc; /* ALLOC_SIZE */
        struct {
            uint32_t owner, handle, type, flags, height;
            int32_t pitch;
            uint32_t attr, width, format, compression, zcull, partition_stride;
            uint64_t size, alignment, offset, limit, address, range_low, range_high;
            uint32_t attr2, tag;
            int32_t numa_node;
        } tiled; /* ALLOC_TILED_PITCH: what it asks for is height * pitch, `size` is only given back
                  */
        struct {
            uint32_t owner, handle, type, flags, attr, format, compression, zcull, partition_stride,
                pad;
            uint64_t size, alignment, offset, limit, range_low, range_high, address;
            uint32_t attr2, tag;
            int32_t numa_node;
        } range; /* ALLOC_SIZE_RANGE */
        struct {
            uint32_t owner, handle, flags;
        } free_; /* FREE */
        uint8_t bytes[144];
    } u;
};

/* Controls, by rm_control.cmd. */
enum rm_ctrl {
    RM_CTRL_CLIENT_GET_HANDLE_INFO = 0xd02,
    RM_CTRL_EXPORT_OBJECT = 0x3d05,
    RM_CTRL_IMPORT_OBJECT = 0x3d06,
    RM_CTRL_EXPORT_OBJECTS = 0x3d0b,
    RM_CTRL_IMPORT_OBJECTS = 0x3d0c,
    RM_CTRL_SURFACE_INFO = 0x410110,
    RM_CTRL_GPU_GET_GID_INFO = 0x2080014a,
    RM_CTRL_GPU_GET_PIDS = 0x2080018d,
    RM_CTRL_GPU_GET_PID_INFO = 0x2080018e,
    RM_CTRL_FIFO_DISABLE_CHANNELS = 0x2080110b,
    RM_CTRL_FB_GET_INFO = 0x20801301,
    RM_CTRL_FB_GET_INFO_V2 = 0x20801303,
    RM_CTRL_GR_GET_CTXSW_STATS = 0x20801215,
    RM_CTRL_GROUP_SCHEDULE = 0xa06c0101,
    RM_CTRL_GROUP_SET_TIMESLICE = 0xa06c0103,
    RM_CTRL_GROUP_GET_TIMESLICE = 0xa06c0104,
    RM_CTRL_GROUP_PREEMPT = 0xa06c0105,
    RM_CTRL_CHANNEL_SCHEDULE = 0xa06f0103,
    RM_CTRL_P2P_REGISTER_PID = 0x503c0106, /* of a client, which is its parameter */
};

struct rm_schedule { /* GROUP_SCHEDULE, CHANNEL_SCHEDULE; how much of it a branch has: struct
                        rm_branch */
    uint8_t enable, skip_submit, skip_enable;
};

/* On a subdevice: how often the context of a group (`object`) was put on the graphics engine and
 * taken off it, and how: it was idle, or stopped between blocks, or between instructions. */
struct rm_ctxsw_stats {
    uint32_t object, flags, save, restore, wfi, cta, cilp, gfxp;
};

#define RM_CTXSW_RESET 1u /* in `flags` */

struct rm_timeslice { /* GROUP_SET_TIMESLICE */
    uint64_t us;
};

struct rm_preempt { /* on a group */
    uint8_t wait, manual_timeout;
    uint32_t timeout_us;
};

struct rm_export_object { /* on a client: a file descriptor that holds an object */
    uint32_t type, device, parent, object;
    int32_t fd;
    uint32_t flags;
};

#define RM_EXPORT_MAX 512

struct rm_export_objects {
    int32_t fd;
    uint32_t device;
    uint16_t room;
    uint8_t metadata[64], pad[2];
    uint32_t object[RM_EXPORT_MAX];
    uint16_t count, index;
};

struct rm_import_object { /* on a client: an object that is a duplicate of what a file descriptor
                             holds */
    int32_t fd;
    uint32_t type, device, parent, object;
};

#define RM_IMPORT_MAX 128

struct rm_import_objects {
    int32_t fd;
    uint32_t parent, object[RM_IMPORT_MAX];
    uint8_t type[RM_IMPORT_MAX]; /* given back: RM_IMPORT_NONE where nothing was there */
    uint16_t count, index;
};

#define RM_IMPORT_NONE   0
#define RM_IMPORT_VIDMEM 1
#define RM_IMPORT_SYSMEM 2

#define RM_OBJECT_TYPE_RM 1u /* of what is exported or imported; there is no other */

#define RM_DMABUF_MAX 128

struct rm_dmabuf { /* the head of EXPORT_DMABUF; where the handles are, and how much follows: struct
                      rm_branch */
    int32_t fd;    /* -1: a new one is made, else it gets more objects */
    uint32_t client, total, count, index, pad;
    uint64_t bytes;
};

/* SURFACE_INFO, on memory; parameters as those of FB_GET_INFO. */
enum rm_surface_index {
    RM_SURFACE_SIZE = 7, /* in units of 4 KiB */
    RM_SURFACE_ADDRESS_SPACE = 9,
};

#define RM_SURFACE_VIDMEM 2u

struct rm_gid_info { /* on a subdevice: its UUID */
    uint32_t index, flags, length;
    uint8_t data[256];
};

#define RM_GID_BINARY 0x2u /* flags: 16 bytes rather than text */

#define RM_DISABLE_MAX 64

struct rm_disable_channels { /* on a subdevice: none of the channels runs until they are enabled
                                again */
    uint8_t disable, pad0[3];
    uint32_t count;
    uint8_t only_scheduling, rewind, pad1[6];
    uint64_t preempt_event; /* must be 0 */
    uint32_t client[RM_DISABLE_MAX], channel[RM_DISABLE_MAX];
};

#define RM_FB_INFO_MAX 128

struct rm_fb_info_item {
    uint32_t index, value; /* sizes in KiB */
};

struct rm_fb_info { /* FB_GET_INFO_V2; how much of it a branch has: struct rm_branch */
    uint32_t count;
    struct rm_fb_info_item item[RM_FB_INFO_MAX];
};

struct rm_fb_info_list { /* FB_GET_INFO */
    uint32_t count, pad;
    uint64_t items; /* of struct rm_fb_info_item */
};

enum rm_fb_info_index {
    RM_FB_RAM_SIZE = 0x07,
    RM_FB_TOTAL_RAM_SIZE = 0x08,
    RM_FB_HEAP_SIZE = 0x09,
    RM_FB_MAPPABLE_HEAP_SIZE = 0x0a,
    RM_FB_LARGEST_FREE_REGION_SIZE = 0x12,
    RM_FB_HEAP_FREE = 0x16,
    RM_FB_USABLE_RAM_SIZE = 0x20,
};

/* UVM: the command is a bare number. */
enum uvm_call {
    UVM_INITIALIZE = 0x30000001,
    UVM_MAP_EXTERNAL_ALLOCATION = 33,
    UVM_FREE = 34,
    UVM_UNMAP_EXTERNAL = 66,
    UVM_ALLOC_SEMAPHORE_POOL = 68,
    UVM_CREATE_EXTERNAL_RANGE = 73,
    UVM_ALLOC_DEVICE_P2P = 78,
};

#define UVM_GPUS_MAX 256

struct uvm_gpu_attributes {
    uint8_t uuid[16];
    uint32_t other[5];
};

struct uvm_map_external {
    uint64_t base, length, offset;
    struct uvm_gpu_attributes gpu[UVM_GPUS_MAX];
    uint64_t gpu_count;
    int32_t rm_fd;
    uint32_t client, memory, status;
};

struct uvm_unmap_external {
    uint64_t base, length;
    uint8_t uuid[16];
    uint32_t status;
};

struct uvm_range { /* the head of FREE, ALLOC_SEMAPHORE_POOL (whose length is its own) and
                      CREATE_EXTERNAL_RANGE */
    uint64_t base, length;
};

/* How the guard tells calls apart: as the driver does. */
#define RM_KEY_MASK      0x3fff00ffu
#define RM_KEY(nr, size) ((uint32_t)(size) << 16 | (uint32_t)(nr))
#define RM_KEY_NR(key)   ((key)&0xffu)
#define RM_KEY_SIZE(key) ((key) >> 16 & 0x3fffu)
/* As libcuda makes it. */
#define RM_IOCTL(nr, size) ((uint32_t)_IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size))

_Static_assert(sizeof(struct rm_alloc_short) == 32 && sizeof(struct rm_alloc) == 48, "RM_ALLOC");
_Static_assert(sizeof(struct rm_alloc_object) == 20, "ALLOC_OBJECT");
_Static_assert(sizeof(struct rm_free) == 16 && sizeof(struct rm_dup_object) == 28,
               "FREE, DUP_OBJECT");
_Static_assert(sizeof(struct rm_control) == 32 && sizeof(struct rm_xfer) == 16, "CONTROL, XFER");
_Static_assert(sizeof(struct rm_memory_params) == 128 &&
                   offsetof(struct rm_memory_params, size) == 64,
               "memory params");
_Static_assert(sizeof(struct rm_fabric_params) == 48 &&
                   offsetof(struct rm_fabric_params, memory) == 40,
               "fabric params");
_Static_assert(sizeof(struct rm_share) == 24 && sizeof(struct rm_handle_info) == 16,
               "SHARE, GET_HANDLE_INFO");
_Static_assert(sizeof(struct rm_vid_heap_control) == 184 &&
                   offsetof(struct rm_vid_heap_control, u) == 40,
               "VID_HEAP");
_Static_assert(offsetof(struct rm_vid_heap_control, u.alloc.size) == 88, "ALLOC_SIZE");
_Static_assert(offsetof(struct rm_vid_heap_control, u.tiled.size) == 88, "ALLOC_TILED_PITCH");
_Static_assert(offsetof(struct rm_vid_heap_control, u.range.size) == 80, "ALLOC_SIZE_RANGE");
_Static_assert(sizeof(struct rm_export_object) == 24 && sizeof(struct rm_export_objects) == 2128,
               "EXPORT_OBJECT");
_Static_assert(sizeof(struct rm_import_object) == 20 && sizeof(struct rm_import_objects) == 652,
               "IMPORT_OBJECT");
_Static_assert(sizeof(struct rm_dmabuf) == 32, "EXPORT_DMABUF");
_Static_assert(sizeof(struct rm_gid_info) == 268, "GID_INFO");
_Static_assert(sizeof(struct rm_disable_channels) == 536, "DISABLE_CHANNELS");
_Static_assert(sizeof(struct rm_fb_info) == 1028, "FB_GET_INFO_V2");
_Static_assert(offsetof(struct uvm_map_external, gpu_count) == 9240 &&
                   sizeof(struct uvm_map_external) == 9264,
               "MAP");

#endif

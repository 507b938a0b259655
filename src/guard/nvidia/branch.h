/*
 * The branches of NVIDIA's driver that the guard knows. A branch is the first number of a version.
 * Within a branch the ABI that the guard uses has not changed (scripts/check_driver_abi.sh compares
 * it with the sources). A branch that is not in the table is refused: a layout that is not known
 * would be misread.
 */
#ifndef VGPU_GUARD_BRANCH_H
#define VGPU_GUARD_BRANCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What differs between branches: a row of spec/branches.def. Sizes and offsets are in bytes. */
struct rm_branch {
    unsigned major, minor_from; /* some branches have early versions that differ */
    uint32_t fb_info_bytes;  /* parameters of RM_CTRL_FB_GET_INFO_V2: struct rm_fb_info with fewer
                                items */
    uint32_t schedule_bytes; /* parameters of RM_CTRL_GROUP_SCHEDULE and RM_CTRL_CHANNEL_SCHEDULE */
    uint32_t uvm_free_bytes; /* of UVM_FREE's structure; its base comes first, its status last */
    uint32_t dmabuf_bytes; /* of RM_ESC_EXPORT_DMABUF's structure; its status is 8 before the end */
    uint32_t dmabuf_handles_at;
};

struct rm_version {
    unsigned major, minor; /* 580 and 126 of 580.126.20; the first is the branch */
    bool open_modules;     /* NVIDIA's open kernel modules rather than the proprietary ones */
    char text[32];         /* "580.126.20" */
};

/*
 * The driver that runs here: by <device_dir>/version if there is such a file, else by
 * /proc/driver/nvidia/version. -ENODEV: no driver is loaded; -EINVAL: there is no version in the
 * file; -ENOENT: the branch is not known, and *ret_version is filled nevertheless. *ret_branch is
 * static.
 */
int branch_read(const char *device_dir, struct rm_version *ret_version,
                const struct rm_branch **ret_branch);

/* "550, 570, 580, 595": for messages. Returns `buffer`. */
#define BRANCH_LIST_BYTES 64
const char *branch_list(char *buffer, size_t buffer_bytes);

#endif

/*
 * Compares src/guard/nvidia/abi.h and the row of spec/branches.def with the headers of
 * NVIDIA's open kernel modules, and prints what differs. Compiled and run by check_driver_abi.sh;
 * takes the driver's version.
 */
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"

#include <stdio.h>

/* Names that NVIDIA's headers define as well. */
static const uint32_t uvm_initialize = UVM_INITIALIZE, uvm_free = UVM_FREE,
                      uvm_unmap_external = UVM_UNMAP_EXTERNAL,
                      uvm_map_external_allocation = UVM_MAP_EXTERNAL_ALLOCATION,
                      uvm_alloc_semaphore_pool = UVM_ALLOC_SEMAPHORE_POOL,
                      uvm_create_external_range = UVM_CREATE_EXTERNAL_RANGE;

#include "nvos.h"
#include "nvstatus.h"
#include "nv_escape.h"
#include "nv-ioctl-numbers.h"
#include "nv-ioctl.h"
#include "nv-unix-nvos-params-wrappers.h"
#include "class/cl0000.h"
#include "class/cl0001.h"
#include "class/cl003e.h"
#include "class/cl0040.h"
#include "class/cl0041.h"
#include "class/cl0071.h"
#include "class/cl0080.h"
#include "class/cl2080.h"
#include "class/cl50a0.h"
#include "class/cla06c.h"
#include "class/cla06f.h"
#include "class/clc86f.h"
#include "ctrl/ctrl0000/ctrl0000client.h"
#include "ctrl/ctrl0000/ctrl0000unix.h"
#include "ctrl/ctrl0041.h"
#include "ctrl/ctrl2080.h"
#include "ctrl/ctrl2080/ctrl2080fb.h"
#include "ctrl/ctrl2080/ctrl2080fifo.h"
#include "ctrl/ctrl2080/ctrl2080gpu.h"
#include "ctrl/ctrla06c.h"
#include "ctrl/ctrla06f.h"
#include "ctrl/ctrla06f/ctrla06fgpfifo.h"
#include "uvm_ioctl.h"
#include "uvm_linux_ioctl.h"

static unsigned compared, different;

static void compare(const char *what, unsigned long long ours, unsigned long long theirs)
{
    compared++;
    if (ours == theirs)
        return;
    different++;
    printf("%s: we say %#llx, the driver %#llx\n", what, ours, theirs);
}

#define SIZE(ours, theirs)  compare("size of " #ours, sizeof(ours), sizeof(theirs))
#define VALUE(ours, theirs) compare(#ours, ours, theirs)
#define FIELD_AT(ours, member, theirs, name)                                                       \
    do {                                                                                           \
        compare("place of " #ours "." #member, offsetof(ours, member), offsetof(theirs, name));    \
        compare("size of " #ours "." #member, sizeof(((ours *)0)->member),                         \
                sizeof(((theirs *)0)->name));                                                      \
    } while (0)

static void calls(void)
{
    VALUE(RM_ESC_ALLOC_MEMORY, NV_ESC_RM_ALLOC_MEMORY);
    VALUE(RM_ESC_ALLOC_OBJECT, NV_ESC_RM_ALLOC_OBJECT);
    VALUE(RM_ESC_FREE, NV_ESC_RM_FREE);
    VALUE(RM_ESC_CONTROL, NV_ESC_RM_CONTROL);
    VALUE(RM_ESC_ALLOC, NV_ESC_RM_ALLOC);
    VALUE(RM_ESC_DUP_OBJECT, NV_ESC_RM_DUP_OBJECT);
    VALUE(RM_ESC_SHARE, NV_ESC_RM_SHARE);
    VALUE(RM_ESC_VID_HEAP_CONTROL, NV_ESC_RM_VID_HEAP_CONTROL);
    VALUE(RM_ESC_XFER, NV_ESC_IOCTL_XFER_CMD);
    VALUE(RM_ESC_EXPORT_DMABUF, NV_ESC_EXPORT_TO_DMABUF_FD);

    VALUE(RM_OK, NV_OK);
    VALUE(RM_ERR_INSUFFICIENT_PERMISSIONS, NV_ERR_INSUFFICIENT_PERMISSIONS);
    VALUE(RM_ERR_INVALID_ADDRESS, NV_ERR_INVALID_ADDRESS);
    VALUE(RM_ERR_INVALID_ARGUMENT, NV_ERR_INVALID_ARGUMENT);
    VALUE(RM_ERR_INVALID_CLIENT, NV_ERR_INVALID_CLIENT);
    VALUE(RM_ERR_NO_MEMORY, NV_ERR_NO_MEMORY);
    VALUE(RM_ERR_NOT_SUPPORTED, NV_ERR_NOT_SUPPORTED);
    VALUE(RM_ERR_OBJECT_NOT_FOUND, NV_ERR_OBJECT_NOT_FOUND);
    VALUE(RM_ERR_TIMEOUT, NV_ERR_TIMEOUT);

    VALUE(RM_CLASS_ROOT, NV01_ROOT);
    VALUE(RM_CLASS_ROOT_NON_PRIV, NV01_ROOT_NON_PRIV);
    VALUE(RM_CLASS_ROOT_CLIENT, NV01_ROOT_CLIENT);
    VALUE(RM_CLASS_MEMORY_SYSTEM, NV01_MEMORY_SYSTEM);
    VALUE(RM_CLASS_MEMORY_LOCAL_USER, NV01_MEMORY_LOCAL_USER);
    VALUE(RM_CLASS_MEMORY_OS_DESCRIPTOR, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR);
    VALUE(RM_CLASS_MEMORY_VIRTUAL, NV50_MEMORY_VIRTUAL);
    VALUE(RM_CLASS_DEVICE, NV01_DEVICE_0);
    VALUE(RM_CLASS_SUBDEVICE, NV20_SUBDEVICE_0);
    VALUE(RM_CLASS_CHANNEL_GROUP, KEPLER_CHANNEL_GROUP_A);
    compare("a channel's class", 1,
            rm_class_is_channel(KEPLER_CHANNEL_GPFIFO_A) &&
                rm_class_is_channel(HOPPER_CHANNEL_GPFIFO_A));
}

static void objects(void)
{
    SIZE(struct rm_alloc_short, NVOS21_PARAMETERS);
    FIELD_AT(struct rm_alloc_short, root, NVOS21_PARAMETERS, hRoot);
    FIELD_AT(struct rm_alloc_short, parent, NVOS21_PARAMETERS, hObjectParent);
    FIELD_AT(struct rm_alloc_short, handle, NVOS21_PARAMETERS, hObjectNew);
    FIELD_AT(struct rm_alloc_short, class_id, NVOS21_PARAMETERS, hClass);
    FIELD_AT(struct rm_alloc_short, params, NVOS21_PARAMETERS, pAllocParms);
    FIELD_AT(struct rm_alloc_short, params_bytes, NVOS21_PARAMETERS, paramsSize);
    FIELD_AT(struct rm_alloc_short, status, NVOS21_PARAMETERS, status);

    SIZE(struct rm_alloc, NVOS64_PARAMETERS);
    FIELD_AT(struct rm_alloc, root, NVOS64_PARAMETERS, hRoot);
    FIELD_AT(struct rm_alloc, parent, NVOS64_PARAMETERS, hObjectParent);
    FIELD_AT(struct rm_alloc, handle, NVOS64_PARAMETERS, hObjectNew);
    FIELD_AT(struct rm_alloc, class_id, NVOS64_PARAMETERS, hClass);
    FIELD_AT(struct rm_alloc, params, NVOS64_PARAMETERS, pAllocParms);
    FIELD_AT(struct rm_alloc, rights, NVOS64_PARAMETERS, pRightsRequested);
    FIELD_AT(struct rm_alloc, params_bytes, NVOS64_PARAMETERS, paramsSize);
    FIELD_AT(struct rm_alloc, flags, NVOS64_PARAMETERS, flags);
    FIELD_AT(struct rm_alloc, status, NVOS64_PARAMETERS, status);

    VALUE(RM_ALLOC_SERIALIZED, NVOS64_FLAGS_FINN_SERIALIZED);

    SIZE(struct rm_alloc_object, NVOS05_PARAMETERS);
    FIELD_AT(struct rm_alloc_object, root, NVOS05_PARAMETERS, hRoot);
    FIELD_AT(struct rm_alloc_object, parent, NVOS05_PARAMETERS, hObjectParent);
    FIELD_AT(struct rm_alloc_object, handle, NVOS05_PARAMETERS, hObjectNew);
    FIELD_AT(struct rm_alloc_object, class_id, NVOS05_PARAMETERS, hClass);
    FIELD_AT(struct rm_alloc_object, status, NVOS05_PARAMETERS, status);

    SIZE(struct rm_free, NVOS00_PARAMETERS);
    FIELD_AT(struct rm_free, root, NVOS00_PARAMETERS, hRoot);
    FIELD_AT(struct rm_free, parent, NVOS00_PARAMETERS, hObjectParent);
    FIELD_AT(struct rm_free, handle, NVOS00_PARAMETERS, hObjectOld);
    FIELD_AT(struct rm_free, status, NVOS00_PARAMETERS, status);

    SIZE(struct rm_dup_object, NVOS55_PARAMETERS);
    FIELD_AT(struct rm_dup_object, client, NVOS55_PARAMETERS, hClient);
    FIELD_AT(struct rm_dup_object, parent, NVOS55_PARAMETERS, hParent);
    FIELD_AT(struct rm_dup_object, handle, NVOS55_PARAMETERS, hObject);
    FIELD_AT(struct rm_dup_object, source_client, NVOS55_PARAMETERS, hClientSrc);
    FIELD_AT(struct rm_dup_object, source_handle, NVOS55_PARAMETERS, hObjectSrc);
    FIELD_AT(struct rm_dup_object, flags, NVOS55_PARAMETERS, flags);
    FIELD_AT(struct rm_dup_object, status, NVOS55_PARAMETERS, status);

    SIZE(struct rm_control, NVOS54_PARAMETERS);
    FIELD_AT(struct rm_control, client, NVOS54_PARAMETERS, hClient);
    FIELD_AT(struct rm_control, object, NVOS54_PARAMETERS, hObject);
    FIELD_AT(struct rm_control, cmd, NVOS54_PARAMETERS, cmd);
    FIELD_AT(struct rm_control, flags, NVOS54_PARAMETERS, flags);
    FIELD_AT(struct rm_control, params, NVOS54_PARAMETERS, params);
    FIELD_AT(struct rm_control, params_bytes, NVOS54_PARAMETERS, paramsSize);
    FIELD_AT(struct rm_control, status, NVOS54_PARAMETERS, status);
    VALUE(RM_CONTROL_SERIALIZED, NVOS54_FLAGS_FINN_SERIALIZED);

    SIZE(struct rm_xfer, nv_ioctl_xfer_t);
    FIELD_AT(struct rm_xfer, nr, nv_ioctl_xfer_t, cmd);
    FIELD_AT(struct rm_xfer, size, nv_ioctl_xfer_t, size);
    FIELD_AT(struct rm_xfer, params, nv_ioctl_xfer_t, ptr);
}

static void memory(void)
{
    SIZE(struct rm_memory_params, NV_MEMORY_ALLOCATION_PARAMS);
    FIELD_AT(struct rm_memory_params, owner, NV_MEMORY_ALLOCATION_PARAMS, owner);
    FIELD_AT(struct rm_memory_params, type, NV_MEMORY_ALLOCATION_PARAMS, type);
    FIELD_AT(struct rm_memory_params, flags, NV_MEMORY_ALLOCATION_PARAMS, flags);
    FIELD_AT(struct rm_memory_params, width, NV_MEMORY_ALLOCATION_PARAMS, width);
    FIELD_AT(struct rm_memory_params, height, NV_MEMORY_ALLOCATION_PARAMS, height);
    FIELD_AT(struct rm_memory_params, pitch, NV_MEMORY_ALLOCATION_PARAMS, pitch);
    FIELD_AT(struct rm_memory_params, attr, NV_MEMORY_ALLOCATION_PARAMS, attr);
    FIELD_AT(struct rm_memory_params, attr2, NV_MEMORY_ALLOCATION_PARAMS, attr2);
    FIELD_AT(struct rm_memory_params, format, NV_MEMORY_ALLOCATION_PARAMS, format);
    FIELD_AT(struct rm_memory_params, compression, NV_MEMORY_ALLOCATION_PARAMS, comprCovg);
    FIELD_AT(struct rm_memory_params, zcull, NV_MEMORY_ALLOCATION_PARAMS, zcullCovg);
    FIELD_AT(struct rm_memory_params, range_low, NV_MEMORY_ALLOCATION_PARAMS, rangeLo);
    FIELD_AT(struct rm_memory_params, range_high, NV_MEMORY_ALLOCATION_PARAMS, rangeHi);
    FIELD_AT(struct rm_memory_params, size, NV_MEMORY_ALLOCATION_PARAMS, size);
    FIELD_AT(struct rm_memory_params, alignment, NV_MEMORY_ALLOCATION_PARAMS, alignment);
    FIELD_AT(struct rm_memory_params, offset, NV_MEMORY_ALLOCATION_PARAMS, offset);
    FIELD_AT(struct rm_memory_params, limit, NV_MEMORY_ALLOCATION_PARAMS, limit);
    FIELD_AT(struct rm_memory_params, address, NV_MEMORY_ALLOCATION_PARAMS, address);
    FIELD_AT(struct rm_memory_params, tag0, NV_MEMORY_ALLOCATION_PARAMS, ctagOffset);
    FIELD_AT(struct rm_memory_params, va_space, NV_MEMORY_ALLOCATION_PARAMS, hVASpace);
    FIELD_AT(struct rm_memory_params, internal_flags, NV_MEMORY_ALLOCATION_PARAMS, internalflags);
    FIELD_AT(struct rm_memory_params, tag, NV_MEMORY_ALLOCATION_PARAMS, tag);
    FIELD_AT(struct rm_memory_params, numa_node, NV_MEMORY_ALLOCATION_PARAMS, numaNode);

    VALUE(RM_MEMORY_FLAG_FIXED_ADDRESS, NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE);
    VALUE(RM_MEMORY_FLAG_ALIGNMENT_HINT, NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT);
    VALUE(RM_MEMORY_FLAG_ALIGNMENT_FORCE, NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE);
    VALUE(RM_MEMORY_FLAG_HANDLE_GIVEN, NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
    VALUE(RM_MEMORY_FLAG_VIRTUAL, NVOS32_ALLOC_FLAGS_VIRTUAL);
    VALUE(RM_MEMORY_ATTR_LOCATION(~0u), DRF_MASK(NVOS32_ATTR_LOCATION));
    VALUE(RM_MEMORY_ATTR_LOCATION(DRF_DEF(OS32, _ATTR, _LOCATION, _PCI)), NVOS32_ATTR_LOCATION_PCI);
    VALUE(RM_MEMORY_LOCATION_VIDMEM, NVOS32_ATTR_LOCATION_VIDMEM);
    VALUE(RM_MEMORY_ATTR_PAGE_SIZE(~0u), DRF_MASK(NVOS32_ATTR_PAGE_SIZE));
    VALUE(RM_MEMORY_ATTR_PAGE_SIZE(DRF_DEF(OS32, _ATTR, _PAGE_SIZE, _HUGE)),
          NVOS32_ATTR_PAGE_SIZE_HUGE);
    VALUE(RM_MEMORY_PAGE_DEFAULT, NVOS32_ATTR_PAGE_SIZE_DEFAULT);
    VALUE(RM_MEMORY_PAGE_4K, NVOS32_ATTR_PAGE_SIZE_4KB);
    VALUE(RM_MEMORY_PAGE_BIG, NVOS32_ATTR_PAGE_SIZE_BIG);
    VALUE(RM_MEMORY_PAGE_HUGE, NVOS32_ATTR_PAGE_SIZE_HUGE);
    VALUE(RM_MEMORY_ATTR2_HUGE_SIZE(~0u), DRF_MASK(NVOS32_ATTR2_PAGE_SIZE_HUGE));
    VALUE(RM_MEMORY_ATTR2_HUGE_SIZE(DRF_DEF(OS32, _ATTR2, _PAGE_SIZE_HUGE, _512MB)),
          RM_MEMORY_HUGE_512M);
#ifdef NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB /* younger than 550 */
    VALUE(RM_MEMORY_HUGE_256G, NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB);
#endif
}

#define HEAP(member, name) FIELD_AT(struct rm_vid_heap_control, member, NVOS32_PARAMETERS, name)

static void heap(void)
{
    VALUE(RM_HEAP_ALLOC_SIZE, NVOS32_FUNCTION_ALLOC_SIZE);
    VALUE(RM_HEAP_FREE, NVOS32_FUNCTION_FREE);
    VALUE(RM_HEAP_INFO, NVOS32_FUNCTION_INFO);
    VALUE(RM_HEAP_ALLOC_TILED_PITCH, NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT);
    VALUE(RM_HEAP_ALLOC_SIZE_RANGE, NVOS32_FUNCTION_ALLOC_SIZE_RANGE);
    VALUE(RM_HEAP_REACQUIRE_COMPRESSION, NVOS32_FUNCTION_REACQUIRE_COMPR);
    VALUE(RM_HEAP_RELEASE_COMPRESSION, NVOS32_FUNCTION_RELEASE_COMPR);
    VALUE(RM_HEAP_GET_MEM_ALIGNMENT, NVOS32_FUNCTION_GET_MEM_ALIGNMENT);

    SIZE(struct rm_vid_heap_control, NVOS32_PARAMETERS);
    HEAP(root, hRoot);
    HEAP(parent, hObjectParent);
    HEAP(function, function);
    HEAP(va_space, hVASpace);
    HEAP(ivc_heap, ivcHeapNumber);
    HEAP(status, status);
    HEAP(total, total);
    HEAP(free, free);
    HEAP(u.alloc.owner, data.AllocSize.owner);
    HEAP(u.alloc.handle, data.AllocSize.hMemory);
    HEAP(u.alloc.type, data.AllocSize.type);
    HEAP(u.alloc.flags, data.AllocSize.flags);
    HEAP(u.alloc.attr, data.AllocSize.attr);
    HEAP(u.alloc.format, data.AllocSize.format);
    HEAP(u.alloc.width, data.AllocSize.width);
    HEAP(u.alloc.height, data.AllocSize.height);
    HEAP(u.alloc.size, data.AllocSize.size);
    HEAP(u.alloc.alignment, data.AllocSize.alignment);
    HEAP(u.alloc.offset, data.AllocSize.offset);
    HEAP(u.alloc.limit, data.AllocSize.limit);
    HEAP(u.alloc.address, data.AllocSize.address);
    HEAP(u.alloc.range_low, data.AllocSize.rangeBegin);
    HEAP(u.alloc.range_high, data.AllocSize.rangeEnd);
    HEAP(u.alloc.attr2, data.AllocSize.attr2);
    HEAP(u.alloc.tag, data.AllocSize.ctagOffset);
    HEAP(u.alloc.numa_node, data.AllocSize.numaNode);
    HEAP(u.tiled.owner, data.AllocTiledPitchHeight.owner);
    HEAP(u.tiled.handle, data.AllocTiledPitchHeight.hMemory);
    HEAP(u.tiled.flags, data.AllocTiledPitchHeight.flags);
    HEAP(u.tiled.height, data.AllocTiledPitchHeight.height);
    HEAP(u.tiled.pitch, data.AllocTiledPitchHeight.pitch);
    HEAP(u.tiled.attr, data.AllocTiledPitchHeight.attr);
    HEAP(u.tiled.width, data.AllocTiledPitchHeight.width);
    HEAP(u.tiled.size, data.AllocTiledPitchHeight.size);
    HEAP(u.tiled.alignment, data.AllocTiledPitchHeight.alignment);
    HEAP(u.tiled.attr2, data.AllocTiledPitchHeight.attr2);
    HEAP(u.range.owner, data.AllocSizeRange.owner);
    HEAP(u.range.handle, data.AllocSizeRange.hMemory);
    HEAP(u.range.flags, data.AllocSizeRange.flags);
    HEAP(u.range.attr, data.AllocSizeRange.attr);
    HEAP(u.range.size, data.AllocSizeRange.size);
    HEAP(u.range.alignment, data.AllocSizeRange.alignment);
    HEAP(u.range.attr2, data.AllocSizeRange.attr2);
    HEAP(u.free_.owner, data.Free.owner);
    HEAP(u.free_.handle, data.Free.hMemory);
    HEAP(u.free_.flags, data.Free.flags);
}

static void controls(void)
{
    VALUE(RM_CTRL_GPU_GET_GID_INFO, NV2080_CTRL_CMD_GPU_GET_GID_INFO);
    VALUE(RM_CTRL_GPU_GET_PIDS, NV2080_CTRL_CMD_GPU_GET_PIDS);
    VALUE(RM_CTRL_GPU_GET_PID_INFO, NV2080_CTRL_CMD_GPU_GET_PID_INFO);
    VALUE(RM_CTRL_FIFO_DISABLE_CHANNELS, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS);
    VALUE(RM_CTRL_FB_GET_INFO, NV2080_CTRL_CMD_FB_GET_INFO);
    VALUE(RM_CTRL_FB_GET_INFO_V2, NV2080_CTRL_CMD_FB_GET_INFO_V2);
    VALUE(RM_CTRL_GROUP_SCHEDULE, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE);
    VALUE(RM_CTRL_GROUP_SET_TIMESLICE, NVA06C_CTRL_CMD_SET_TIMESLICE);
    VALUE(RM_CTRL_GROUP_GET_TIMESLICE, NVA06C_CTRL_CMD_GET_TIMESLICE);
    VALUE(RM_CTRL_CHANNEL_SCHEDULE, NVA06F_CTRL_CMD_GPFIFO_SCHEDULE);

    VALUE(RM_CTRL_EXPORT_OBJECT, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD);
    VALUE(RM_CTRL_EXPORT_OBJECTS, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD);
    SIZE(struct rm_export_object, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS);
    FIELD_AT(struct rm_export_object, type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS,
             object.type);
    FIELD_AT(struct rm_export_object, device, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS,
             object.data.rmObject.hDevice);
    FIELD_AT(struct rm_export_object, parent, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS,
             object.data.rmObject.hParent);
    FIELD_AT(struct rm_export_object, object, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS,
             object.data.rmObject.hObject);
    FIELD_AT(struct rm_export_object, fd, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS, fd);
    SIZE(struct rm_export_objects, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS);
    FIELD_AT(struct rm_export_objects, fd, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS, fd);
    FIELD_AT(struct rm_export_objects, device, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS,
             hDevice);
    FIELD_AT(struct rm_export_objects, object, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS,
             objects);
    FIELD_AT(struct rm_export_objects, count, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS,
             numObjects);
    FIELD_AT(struct rm_export_objects, index, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS,
             index);

    FIELD_AT(struct rm_export_objects, room, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS,
             maxObjects);
    VALUE(RM_EXPORT_MAX, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_MAX_OBJECTS);
    VALUE(RM_OBJECT_TYPE_RM, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);

    VALUE(RM_CTRL_IMPORT_OBJECT, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD);
    VALUE(RM_CTRL_IMPORT_OBJECTS, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD);
    SIZE(struct rm_import_object, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS);
    FIELD_AT(struct rm_import_object, fd, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS, fd);
    FIELD_AT(struct rm_import_object, type, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS,
             object.type);
    FIELD_AT(struct rm_import_object, parent, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS,
             object.data.rmObject.hParent);
    FIELD_AT(struct rm_import_object, object, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS,
             object.data.rmObject.hObject);
    SIZE(struct rm_import_objects, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS);
    FIELD_AT(struct rm_import_objects, fd, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS, fd);
    FIELD_AT(struct rm_import_objects, parent, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS,
             hParent);
    FIELD_AT(struct rm_import_objects, object, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS,
             objects);
    FIELD_AT(struct rm_import_objects, type, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS,
             objectTypes);
    FIELD_AT(struct rm_import_objects, count, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS,
             numObjects);
    FIELD_AT(struct rm_import_objects, index, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS,
             index);
    VALUE(RM_IMPORT_NONE, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_NONE);
    VALUE(RM_IMPORT_VIDMEM, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_VIDMEM);
    VALUE(RM_IMPORT_SYSMEM, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_SYSMEM);

    VALUE(RM_DMABUF_MAX, NV_DMABUF_EXPORT_MAX_HANDLES);
    FIELD_AT(struct rm_dmabuf, fd, nv_ioctl_export_to_dma_buf_fd_t, fd);
    FIELD_AT(struct rm_dmabuf, client, nv_ioctl_export_to_dma_buf_fd_t, hClient);
    FIELD_AT(struct rm_dmabuf, total, nv_ioctl_export_to_dma_buf_fd_t, totalObjects);
    FIELD_AT(struct rm_dmabuf, count, nv_ioctl_export_to_dma_buf_fd_t, numObjects);
    FIELD_AT(struct rm_dmabuf, index, nv_ioctl_export_to_dma_buf_fd_t, index);
    FIELD_AT(struct rm_dmabuf, bytes, nv_ioctl_export_to_dma_buf_fd_t, totalSize);
    compare("place of EXPORT_DMABUF's status", sizeof(nv_ioctl_export_to_dma_buf_fd_t) - 8,
            offsetof(nv_ioctl_export_to_dma_buf_fd_t, status));

    VALUE(RM_CTRL_SURFACE_INFO, NV0041_CTRL_CMD_GET_SURFACE_INFO);
    SIZE(struct rm_fb_info_list, NV0041_CTRL_GET_SURFACE_INFO_PARAMS);
    FIELD_AT(struct rm_fb_info_list, count, NV0041_CTRL_GET_SURFACE_INFO_PARAMS,
             surfaceInfoListSize);
    FIELD_AT(struct rm_fb_info_list, items, NV0041_CTRL_GET_SURFACE_INFO_PARAMS, surfaceInfoList);
    VALUE(RM_SURFACE_SIZE, NV0041_CTRL_SURFACE_INFO_INDEX_PHYS_SIZE);
    VALUE(4096, NV0041_CTRL_SURFACE_INFO_PHYS_SIZE_SCALE_FACTOR);
    VALUE(RM_SURFACE_ADDRESS_SPACE, NV0041_CTRL_SURFACE_INFO_INDEX_ADDR_SPACE_TYPE);
    VALUE(RM_SURFACE_VIDMEM, NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM);

    SIZE(struct rm_gid_info, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS);
    FIELD_AT(struct rm_gid_info, index, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, index);
    FIELD_AT(struct rm_gid_info, flags, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, flags);
    FIELD_AT(struct rm_gid_info, length, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, length);
    FIELD_AT(struct rm_gid_info, data, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, data);
    VALUE(RM_GID_BINARY, DRF_DEF(2080_GPU_CMD, _GPU_GET_GID_FLAGS, _FORMAT, _BINARY));

    SIZE(struct rm_disable_channels, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS);
    FIELD_AT(struct rm_disable_channels, disable, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             bDisable);
    FIELD_AT(struct rm_disable_channels, count, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             numChannels);
    FIELD_AT(struct rm_disable_channels, only_scheduling, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             bOnlyDisableScheduling);
    FIELD_AT(struct rm_disable_channels, rewind, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             bRewindGpPut);
    FIELD_AT(struct rm_disable_channels, preempt_event, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             pRunlistPreemptEvent);
    FIELD_AT(struct rm_disable_channels, client, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             hClientList);
    FIELD_AT(struct rm_disable_channels, channel, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS,
             hChannelList);

    SIZE(struct rm_fb_info_item, NV2080_CTRL_FB_INFO);
    FIELD_AT(struct rm_fb_info_item, index, NV2080_CTRL_FB_INFO, index);
    FIELD_AT(struct rm_fb_info_item, value, NV2080_CTRL_FB_INFO, data);
    FIELD_AT(struct rm_fb_info, count, NV2080_CTRL_FB_GET_INFO_V2_PARAMS, fbInfoListSize);
    FIELD_AT(struct rm_fb_info, item[0], NV2080_CTRL_FB_GET_INFO_V2_PARAMS, fbInfoList[0]);
    SIZE(struct rm_fb_info_list, NV2080_CTRL_FB_GET_INFO_PARAMS);
    FIELD_AT(struct rm_fb_info_list, count, NV2080_CTRL_FB_GET_INFO_PARAMS, fbInfoListSize);
    FIELD_AT(struct rm_fb_info_list, items, NV2080_CTRL_FB_GET_INFO_PARAMS, fbInfoList);
    VALUE(RM_FB_RAM_SIZE, NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE);
    VALUE(RM_FB_TOTAL_RAM_SIZE, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
    VALUE(RM_FB_HEAP_SIZE, NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE);
    VALUE(RM_FB_MAPPABLE_HEAP_SIZE, NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE);
    VALUE(RM_FB_LARGEST_FREE_REGION_SIZE, NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB);
    VALUE(RM_FB_HEAP_FREE, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
    VALUE(RM_FB_USABLE_RAM_SIZE, NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE);
}

static void uvm(void)
{
    VALUE(uvm_initialize, UVM_INITIALIZE);
    VALUE(uvm_map_external_allocation, UVM_MAP_EXTERNAL_ALLOCATION);
    VALUE(uvm_free, UVM_FREE);
    VALUE(uvm_unmap_external, UVM_UNMAP_EXTERNAL);
    VALUE(uvm_alloc_semaphore_pool, UVM_ALLOC_SEMAPHORE_POOL);
    VALUE(uvm_create_external_range, UVM_CREATE_EXTERNAL_RANGE);

    SIZE(struct uvm_gpu_attributes, UvmGpuMappingAttributes);
    FIELD_AT(struct uvm_gpu_attributes, uuid, UvmGpuMappingAttributes, gpuUuid);
    SIZE(struct uvm_map_external, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS);
    FIELD_AT(struct uvm_map_external, base, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, base);
    FIELD_AT(struct uvm_map_external, length, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, length);
    FIELD_AT(struct uvm_map_external, offset, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, offset);
    FIELD_AT(struct uvm_map_external, gpu, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, perGpuAttributes);
    FIELD_AT(struct uvm_map_external, gpu_count, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS,
             gpuAttributesCount);
    FIELD_AT(struct uvm_map_external, rm_fd, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, rmCtrlFd);
    FIELD_AT(struct uvm_map_external, client, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, hClient);
    FIELD_AT(struct uvm_map_external, memory, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, hMemory);
    FIELD_AT(struct uvm_map_external, status, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, rmStatus);
    SIZE(struct uvm_unmap_external, UVM_UNMAP_EXTERNAL_PARAMS);
    FIELD_AT(struct uvm_unmap_external, base, UVM_UNMAP_EXTERNAL_PARAMS, base);
    FIELD_AT(struct uvm_unmap_external, length, UVM_UNMAP_EXTERNAL_PARAMS, length);
    FIELD_AT(struct uvm_unmap_external, uuid, UVM_UNMAP_EXTERNAL_PARAMS, gpuUuid);
    FIELD_AT(struct uvm_unmap_external, status, UVM_UNMAP_EXTERNAL_PARAMS, rmStatus);
    FIELD_AT(struct uvm_range, base, UVM_CREATE_EXTERNAL_RANGE_PARAMS, base);
    FIELD_AT(struct uvm_range, length, UVM_CREATE_EXTERNAL_RANGE_PARAMS, length);
    FIELD_AT(struct uvm_range, base, UVM_ALLOC_SEMAPHORE_POOL_PARAMS, base);
    FIELD_AT(struct uvm_range, length, UVM_ALLOC_SEMAPHORE_POOL_PARAMS, length);
    FIELD_AT(struct uvm_range, base, UVM_FREE_PARAMS, base);
    compare("place of UVM_FREE's status", sizeof(UVM_FREE_PARAMS) - 8,
            offsetof(UVM_FREE_PARAMS, rmStatus));
}

static void row(const char *text)
{
    const struct rm_branch *found = NULL;
    struct rm_version version = {0};

    FIELD_AT(struct rm_schedule, enable, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS, bEnable);
    FIELD_AT(struct rm_schedule, skip_submit, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS, bSkipSubmit);
    compare("size of both forms of SCHEDULE", sizeof(NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS),
            sizeof(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS));
    sscanf(text, "%u.%u", &version.major, &version.minor);
    if (branch_find(&version, &found) < 0) {
        different++;
        printf("%s is not in spec/branches.def; its row:\nBRANCH(.major = %u, .minor_from = 0, "
               ".fb_info_bytes = %zu, .schedule_bytes = %zu, .uvm_free_bytes = %zu, "
               ".dmabuf_bytes = %zu, .dmabuf_handles_at = %zu)\n",
               text, version.major, sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS),
               sizeof(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS), sizeof(UVM_FREE_PARAMS),
               sizeof(nv_ioctl_export_to_dma_buf_fd_t),
               offsetof(nv_ioctl_export_to_dma_buf_fd_t, handles));
        return;
    }
    compare("fb_info_bytes", found->fb_info_bytes, sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS));
    compare("schedule_bytes", found->schedule_bytes, sizeof(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS));
    compare("uvm_free_bytes", found->uvm_free_bytes, sizeof(UVM_FREE_PARAMS));
    compare("dmabuf_bytes", found->dmabuf_bytes, sizeof(nv_ioctl_export_to_dma_buf_fd_t));
    compare("dmabuf_handles_at", found->dmabuf_handles_at,
            offsetof(nv_ioctl_export_to_dma_buf_fd_t, handles));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    calls();
    objects();
    memory();
    heap();
    controls();
    uvm();
    row(argv[1]);
    printf("%s: %u compared, %u different\n", argv[1], compared, different);
    return different != 0;
}

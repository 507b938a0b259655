/*
 * The types of the CUDA driver that the library, the simulator and the tests use: names, sizes,
 * offsets and values as in cuda.h 13.0, and no more than is needed. Where a real cuda.h is
 * installed, tests/abi compares every one of them with it.
 *
 * With VGPU_ABI_USE_CUDA_H, NVIDIA's header takes the place of these declarations.
 */
#ifndef VGPU_ABI_CUDA_H
#define VGPU_ABI_CUDA_H

#ifdef VGPU_ABI_USE_CUDA_H
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#else
#include "abi/cuda_copy.h"
#include "abi/cuda_device.h"
#include "abi/cuda_graph.h"
#include "abi/cuda_launch.h"
#include "abi/cuda_memory.h"
#endif

#endif

/* As a sample of CUDA's looks like: a device, its memory, a kernel, an error. program QUOTA. */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, cudaGetErrorName(cudaPeekAtLastError()));       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

template <typename T> __global__ void scale(T *values, int count, T by)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;

    if (at < count)
        values[at] *= by;
}

/* Takes that long in the simulator, whatever its code. */
extern "C" __global__ void simgpu_busy(unsigned long long duration_ns)
{
    (void)duration_ns;
}

__device__ float table[1000] = {1.5f, 2.5f};
__constant__ int limits[16] = {7, 8, 9};
__managed__ int shared_with_host;

/* Keeps the variables in the program. */
__global__ void use(float *values)
{
    values[0] = table[limits[0]] + shared_with_host;
}

static void variables()
{
    float floats[2] = {0, 0};
    int ints[16] = {0};
    size_t bytes = 0;

    CHECK(cudaMemcpyFromSymbol(floats, table, sizeof(floats)) == cudaSuccess && floats[0] == 1.5f && floats[1] == 2.5f);
    CHECK(cudaMemcpyFromSymbol(ints, limits, sizeof(ints)) == cudaSuccess && ints[2] == 9 && ints[3] == 0);
    ints[0] = 42;
    CHECK(cudaMemcpyToSymbol(limits, ints, sizeof(ints)) == cudaSuccess);
    ints[0] = 0;
    CHECK(cudaMemcpyFromSymbol(ints, limits, sizeof(ints)) == cudaSuccess && ints[0] == 42);
    CHECK(cudaGetSymbolSize(&bytes, table) == cudaSuccess && bytes == sizeof(table));
    shared_with_host = 5;
    CHECK(shared_with_host == 5);
}

int main(int argc, char **argv)
{
    const int count = 1 << 20;
    size_t quota = argc > 1 ? strtoull(argv[1], nullptr, 10) : 0, free_bytes, total;
    cudaDeviceProp properties;
    cudaEvent_t first, last;
    cudaStream_t stream;
    float *values, ms = 0;
    void *more;
    int devices = 0;

    CHECK(cudaGetDeviceCount(&devices) == cudaSuccess && devices == 1);
    CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess && properties.totalGlobalMem == quota);
    CHECK(cudaSetDevice(0) == cudaSuccess && cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && total == quota);
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(cudaEventCreate(&first) == cudaSuccess && cudaEventCreate(&last) == cudaSuccess);
    CHECK(cudaMalloc(&values, count * sizeof(*values)) == cudaSuccess);
    scale<<<count / 256, 256, 0, stream>>>(values, count, 2.0f);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaEventRecord(first, stream) == cudaSuccess);
    use<<<1, 1, 0, stream>>>(values);
    CHECK(cudaGetLastError() == cudaSuccess);
    simgpu_busy<<<1, 1, 0, stream>>>(20000000ULL);
    CHECK(cudaEventRecord(last, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, first, last) == cudaSuccess && ms >= 19.9f);
    variables();
    CHECK(cudaMalloc(&more, quota) == cudaErrorMemoryAllocation && cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaFree(values) == cudaSuccess && cudaDeviceReset() == cudaSuccess);
    return 0;
}

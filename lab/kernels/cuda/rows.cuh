// Shared by the row-wise kernels: reductions over the threads of a row.
//
// A row is in the registers of a part of a warp, of a block, or of the blocks of a cluster, which exchange sums through
// each other's shared memory. Thread t of `lanes` has vectors t, t + lanes, t + 2 lanes, ... of its block's part.
#pragma once

#include "packed.cuh"

enum Reach { WITHIN_WARP, WITHIN_BLOCK, WITHIN_CLUSTER };

constexpr int WARP = 32;
constexpr int MOST_WARPS = 32;
constexpr int MOST_BLOCKS = 16;  // of a cluster

// The plan of a launch on rows: the same fields, in the same order, as `_RowPlan` in cuda_rows.py.
struct RowPlan {
    int64_t rows;
    int64_t stride;  // of the input's rows, in elements
    int32_t columns;
    int32_t width;    // elements a vector: 16 bytes of them, or 1
    int32_t vectors;  // in the registers of a thread
    int32_t threads;  // of a block that share a row
    int32_t rows_per_block;
    int32_t cluster;  // blocks that share a row
    int32_t weight_is_float;
    float share;  // 1 / columns
};

__device__ __forceinline__ float lanes_sum(float value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ __forceinline__ float lanes_max(float value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

__device__ __forceinline__ uint32_t rank_in_cluster() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ uint32_t blocks_in_cluster() {
    uint32_t blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// Call first: no block may write into the shared memory of a block that has not started.
__device__ __forceinline__ void announce_start() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void await_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void announce_writes() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void write_to_block(const float* mine, uint32_t rank, float value) {
    uint32_t local = static_cast<uint32_t>(__cvta_generic_to_shared(mine)), remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
}

// Shared memory in which each warp writes its part of a row's result for the other warps of the row.
template <Reach REACH>
struct Exchange {
    float part[REACH == WITHIN_WARP ? 1 : REACH == WITHIN_BLOCK ? MOST_WARPS : MOST_WARPS * MOST_BLOCKS];

    // Writes this warp's `value` for all warps of the row; call `meet` before reading.
    __device__ __forceinline__ void leave(float value) {
        const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        if constexpr (REACH == WITHIN_BLOCK) {
            if (lane == 0) part[warp] = value;
        } else if constexpr (REACH == WITHIN_CLUSTER) {
            const int slot = rank_in_cluster() * (blockDim.x / WARP) + warp;
            if (lane < blocks_in_cluster()) write_to_block(part + slot, lane, value);
        }
    }

    static __device__ __forceinline__ int count() {
        const int warps = blockDim.x / WARP;
        return REACH == WITHIN_CLUSTER ? warps * blocks_in_cluster() : warps;
    }
};

template <Reach REACH>
__device__ __forceinline__ void before_leaving() {
    if constexpr (REACH == WITHIN_CLUSTER) await_cluster();  // all blocks have started
}

template <Reach REACH>
__device__ __forceinline__ void meet() {
    if constexpr (REACH == WITHIN_CLUSTER) {
        announce_writes();
        await_cluster();
    } else {
        __syncthreads();
    }
}

// The sum over all threads of the row.
template <Reach REACH>
__device__ __forceinline__ float row_sum(float value, Exchange<REACH>& exchange) {
    if constexpr (REACH == WITHIN_WARP) return lanes_sum(value, blockDim.x);
    value = lanes_sum(value, WARP);
    before_leaving<REACH>();
    exchange.leave(value);
    meet<REACH>();
    const int lane = threadIdx.x % WARP;
    float total = 0.0f;
    for (int slot = lane; slot < exchange.count(); slot += WARP) total += exchange.part[slot];
    return lanes_sum(total, WARP);
}

// Launches `kernel` with its plan, in clusters if several blocks share a row.
template <typename... Parameters, typename... Arguments>
int launch_rows(void (*kernel)(Parameters...), const RowPlan& plan, void* stream, Arguments... arguments) {
    cudaLaunchConfig_t how = {};
    const int64_t blocks = (plan.rows + plan.rows_per_block - 1) / plan.rows_per_block * plan.cluster;
    how.gridDim = dim3(static_cast<unsigned>(blocks));
    how.blockDim = dim3(plan.threads, plan.rows_per_block);
    how.stream = static_cast<cudaStream_t>(stream);
    cudaLaunchAttribute clusters;
    clusters.id = cudaLaunchAttributeClusterDimension;
    clusters.val.clusterDim = {static_cast<unsigned>(plan.cluster), 1, 1};
    how.attrs = &clusters;
    how.numAttrs = plan.cluster > 1;
    return cudaLaunchKernelEx(&how, kernel, static_cast<Parameters>(arguments)...);
}

template <typename Kernel>
int describe_rows(Kernel kernel, const RowPlan& plan, KernelFacts* facts) {
    if (const int error = describe(kernel, facts)) return error;
    if (plan.cluster <= 8) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

// Calls `USE(width, vectors, reach)` with the values of the plan as constants; else cudaErrorInvalidValue.
#define DISPATCH_ROWS(plan, USE)                                                        \
    do {                                                                                \
        const Reach reach = (plan).cluster > 1                       ? WITHIN_CLUSTER   \
                            : (plan).threads > WARP || (plan).rows_per_block == 1       \
                                ? WITHIN_BLOCK                                          \
                                : WITHIN_WARP;                                          \
        const int key = (plan).vectors * 4 + reach;                                     \
        if ((plan).width > 1) {                                                         \
            constexpr int WIDTH = 16 / sizeof(Element);                                 \
            switch (key) {                                                              \
                case 1 * 4 + WITHIN_WARP: USE(WIDTH, 1, WITHIN_WARP);                   \
                case 2 * 4 + WITHIN_WARP: USE(WIDTH, 2, WITHIN_WARP);                   \
                case 4 * 4 + WITHIN_WARP: USE(WIDTH, 4, WITHIN_WARP);                   \
                case 1 * 4 + WITHIN_BLOCK: USE(WIDTH, 1, WITHIN_BLOCK);                 \
                case 2 * 4 + WITHIN_BLOCK: USE(WIDTH, 2, WITHIN_BLOCK);                 \
                case 4 * 4 + WITHIN_BLOCK: USE(WIDTH, 4, WITHIN_BLOCK);                 \
                case 8 * 4 + WITHIN_BLOCK: USE(WIDTH, 8, WITHIN_BLOCK);                 \
                case 2 * 4 + WITHIN_CLUSTER: USE(WIDTH, 2, WITHIN_CLUSTER);             \
                case 4 * 4 + WITHIN_CLUSTER: USE(WIDTH, 4, WITHIN_CLUSTER);             \
                case 8 * 4 + WITHIN_CLUSTER: USE(WIDTH, 8, WITHIN_CLUSTER);             \
            }                                                                           \
        } else {                                                                        \
            switch (key) {                                                              \
                case 4 * 4 + WITHIN_WARP: USE(1, 4, WITHIN_WARP);                       \
                case 8 * 4 + WITHIN_BLOCK: USE(1, 8, WITHIN_BLOCK);                     \
                case 32 * 4 + WITHIN_CLUSTER: USE(1, 32, WITHIN_CLUSTER);               \
            }                                                                           \
        }                                                                               \
        return cudaErrorInvalidValue;                                                   \
    } while (0)

// Bytes of registers that VECTORS vectors take in a thread. A single 16-bit element takes a whole register.
template <typename T>
__host__ __device__ constexpr int register_bytes(int width, int vectors) {
    const int vector_bytes = width * static_cast<int>(sizeof(T));
    return vectors * (vector_bytes < 4 ? 4 : vector_bytes);
}

// The most threads of a block that a kernel is compiled for, and the least blocks that must fit into a multiprocessor.
// The second limits registers, so that enough loads are in flight. There is no limit for single elements.
constexpr int most_threads(int bytes, Reach reach) { return reach == WITHIN_WARP ? 256 : bytes <= 32 ? 1024 : 512; }
constexpr int least_blocks(int width, int bytes, Reach reach) {
    return width == 1 ? 1 : reach == WITHIN_WARP ? 4 : bytes <= 32 ? 2 : bytes <= 64 ? 3 : 2;
}

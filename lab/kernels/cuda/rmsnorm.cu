// RMSNorm of rows: y = x / sqrt(mean(x^2) + eps) * w, in float32, rounded once. Compiled with -DElement=... .
#include "bulk.cuh"
#include "rows.cuh"

constexpr int MOST_STAGES = 8;

// x stays packed in registers between the sum of squares and the result, so it crosses memory once. The weight is read
// before the reduction, so that its latency passes meanwhile, where registers allow.
template <typename T, typename W, int WIDTH, int VECTORS, Reach REACH>
__global__ void __launch_bounds__(most_threads(held_bytes<T>(WIDTH, VECTORS), REACH))
    rmsnorm_cuda(const T* __restrict__ x, const W* __restrict__ weight, T* __restrict__ y, float eps, RowPlan plan) {
    __shared__ Exchange<REACH> exchange;
    if constexpr (REACH == WITHIN_CLUSTER) announce_start();
    constexpr bool WEIGHT_FIRST = held_bytes<W>(WIDTH, VECTORS) <= 64;
    const int64_t row = REACH == WITHIN_CLUSTER ? blockIdx.x / blocks_in_cluster()
                                                : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const bool present = row < plan.rows;
    const int lanes = blockDim.x;
    const int count = plan.columns / WIDTH;
    const int first = threadIdx.x + (REACH == WITHIN_CLUSTER ? rank_in_cluster() * VECTORS * lanes : 0);
    x += row * plan.stride;
    y += row * plan.columns;

    Packed<T, WIDTH> held[VECTORS];
    Packed<W, WIDTH> weights[WEIGHT_FIRST ? VECTORS : 1];
    float values[WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        held[v] = {};
        if (present && index < count) held[v] = read_packed<T, WIDTH>(x + index * WIDTH);
    }
    if constexpr (WEIGHT_FIRST) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const int index = first + v * lanes;
            if (index < count) weights[v] = read_packed<W, WIDTH>(weight + index * WIDTH);
        }
    }
    float squares = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        unpack(held[v], values);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) squares += values[i] * values[i];
        keep_packed(held[v]);
    }
    const float rstd = rsqrtf(row_sum<REACH>(squares, exchange) / plan.columns + eps);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        if (present && index < count) {
            float scales[WIDTH];
            if constexpr (!WEIGHT_FIRST) weights[0] = read_packed<W, WIDTH>(weight + index * WIDTH);
            unpack(weights[WEIGHT_FIRST ? v : 0], scales);
            unpack(held[v], values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) values[i] = values[i] * rstd * scales[i];
            write_packed(y + index * WIDTH, pack<T>(values));
        }
    }
}

// As many blocks as run at the same time take rows in turn. The copy engine brings `stages` rows ahead, and the weight
// stays in registers from row to row.
template <typename T, typename W, int WIDTH, int VECTORS>
__global__ void __launch_bounds__(
    most_threads((held_bytes<T>(WIDTH, VECTORS) + held_bytes<W>(WIDTH, VECTORS)) / 2, WITHIN_BLOCK))
    rmsnorm_bulk_cuda(const T* __restrict__ x, const W* __restrict__ weight, T* __restrict__ y, float eps, RowPlan plan) {
    extern __shared__ __align__(128) unsigned char rows[];
    __shared__ uint64_t arrivals[MOST_STAGES];
    __shared__ Exchange<WITHIN_BLOCK> exchanges[2];
    const int stages = plan.stages, lanes = blockDim.x, count = plan.columns / WIDTH;
    const uint32_t row_bytes = plan.columns * sizeof(T);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; stage++) {
            open_barrier(arrivals + stage);
            const int64_t row = blockIdx.x + static_cast<int64_t>(stage) * gridDim.x;
            if (row < plan.rows) bring(rows + stage * row_bytes, x + row * plan.stride, row_bytes, arrivals + stage);
        }
    }
    Packed<W, WIDTH> weights[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = threadIdx.x + v * lanes;
        if (index < count) weights[v] = read_packed<W, WIDTH>(weight + index * WIDTH);
    }
    __syncthreads();
    int stage = 0, turn = 0;
    uint32_t phase = 0;
    for (int64_t row = blockIdx.x; row < plan.rows; row += gridDim.x) {
        await_arrival(arrivals + stage, phase);
        const T* arrived = reinterpret_cast<const T*>(rows + stage * row_bytes);
        Packed<T, WIDTH> held[VECTORS];
        float values[WIDTH], squares = 0.0f;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const int index = threadIdx.x + v * lanes;
            held[v] = {};
            if (index < count) held[v] = read_packed<T, WIDTH>(arrived + index * WIDTH);
            unpack(held[v], values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) squares += values[i] * values[i];
            keep_packed(held[v]);
        }
        // Every thread has read the stage before any passes the reduction: it may be filled again.
        const float rstd = rsqrtf(row_sum<WITHIN_BLOCK>(squares, exchanges[turn & 1]) / plan.columns + eps);
        const int64_t next = row + static_cast<int64_t>(stages) * gridDim.x;
        if (threadIdx.x == 0 && next < plan.rows) {
            bring(rows + stage * row_bytes, x + next * plan.stride, row_bytes, arrivals + stage);
        }
        T* y_row = y + row * plan.columns;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const int index = threadIdx.x + v * lanes;
            if (index < count) {
                float scales[WIDTH];
                unpack(weights[v], scales);
                unpack(held[v], values);
#pragma unroll
                for (int i = 0; i < WIDTH; i++) values[i] = values[i] * rstd * scales[i];
                write_packed(y_row + index * WIDTH, pack<T>(values));
            }
        }
        turn++;
        if (++stage == stages) {
            stage = 0;
            phase ^= 1;
        }
    }
}

template <typename W, int VECTORS>
int start_bulk(const RowPlan& plan, const void* x, const void* weight, void* y, float eps, void* stream) {
    const size_t shared_bytes = static_cast<size_t>(plan.stages) * plan.columns * sizeof(Element);
    rmsnorm_bulk_cuda<Element, W, 16 / sizeof(Element), VECTORS>
        <<<plan.blocks, plan.threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(
            (const Element*)x, (const W*)weight, (Element*)y, eps, plan);
    return cudaGetLastError();
}

template <typename W, int VECTORS>
int tell_bulk(RowPlan& plan, KernelFacts* facts) {
    const auto kernel = rmsnorm_bulk_cuda<Element, W, 16 / sizeof(Element), VECTORS>;
    const int shared_bytes = plan.stages * plan.columns * static_cast<int>(sizeof(Element));
    if (const int error = describe(kernel, facts)) return error;
    if (const int error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10)) return error;
    int device, multiprocessors, blocks;
    if (const int error = cudaGetDevice(&device)) return error;
    if (const int error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) return error;
    if (const int error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, plan.threads, shared_bytes)) {
        return error;
    }
    if (blocks == 0) return cudaErrorInvalidValue;
    plan.blocks = static_cast<int32_t>(plan.rows < blocks * multiprocessors ? plan.rows : blocks * multiprocessors);
    return cudaSuccess;
}

template <typename W>
int start(const RowPlan& plan, const void* x, const void* weight, void* y, float eps, void* stream) {
    if (plan.stages && plan.vectors == 1) return start_bulk<W, 1>(plan, x, weight, y, eps, stream);
    if (plan.stages && plan.vectors == 2) return start_bulk<W, 2>(plan, x, weight, y, eps, stream);
    if (plan.stages && plan.vectors == 4) return start_bulk<W, 4>(plan, x, weight, y, eps, stream);
#define USE(WIDTH, VECTORS, REACH)                                                                           \
    return launch_rows(rmsnorm_cuda<Element, W, WIDTH, VECTORS, REACH>, plan, stream, (const Element*)x, \
                       (const W*)weight, (Element*)y, eps, plan)
    DISPATCH_ROWS(plan, USE);
#undef USE
}

template <typename W>
int tell(RowPlan& plan, KernelFacts* facts) {
    if (plan.stages && plan.vectors == 1) return tell_bulk<W, 1>(plan, facts);
    if (plan.stages && plan.vectors == 2) return tell_bulk<W, 2>(plan, facts);
    if (plan.stages && plan.vectors == 4) return tell_bulk<W, 4>(plan, facts);
#define USE(WIDTH, VECTORS, REACH) return describe_rows(rmsnorm_cuda<Element, W, WIDTH, VECTORS, REACH>, plan, facts)
    DISPATCH_ROWS(plan, USE);
#undef USE
}

extern "C" int run(const RowPlan* plan, const void* x, const void* weight, void* y, float eps, void* stream) {
    return plan->weight_is_float ? start<float>(*plan, x, weight, y, eps, stream)
                                 : start<Element>(*plan, x, weight, y, eps, stream);
}

extern "C" int prepare(RowPlan* plan, KernelFacts* facts) {
    return plan->weight_is_float ? tell<float>(*plan, facts) : tell<Element>(*plan, facts);
}

extern "C" int plan_bytes() { return sizeof(RowPlan); }

// RMSNorm of rows: y = x / sqrt(mean(x^2) + eps) * w, in float32, rounded once. Compiled with -DElement=... .
#include "rows.cuh"

// x stays packed in registers between the sum of squares and the result, so it is read once. If there are enough
// registers, the weight is read before the reduction, which then hides its latency.
template <typename T, typename W, int WIDTH, int VECTORS, Reach REACH>
__global__ void __launch_bounds__(most_threads(register_bytes<T>(WIDTH, VECTORS), REACH),
                                  least_blocks(WIDTH, register_bytes<T>(WIDTH, VECTORS), REACH))
    rmsnorm_cuda(const T* __restrict__ x, const W* __restrict__ weight, T* __restrict__ y, float eps, RowPlan plan) {
    __shared__ Exchange<REACH> exchange;
    if constexpr (REACH == WITHIN_CLUSTER) announce_start();
    constexpr bool WEIGHT_FIRST = register_bytes<W>(WIDTH, VECTORS) <= 32;
    constexpr bool HOLDS_PACKED = sizeof(T) == 2;
    const int64_t row = REACH == WITHIN_CLUSTER ? blockIdx.x / blocks_in_cluster()
                                                : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const bool present = row < plan.rows;
    const int lanes = blockDim.x;
    const int count = plan.columns / WIDTH;
    const int first = threadIdx.x + (REACH == WITHIN_CLUSTER ? rank_in_cluster() * VECTORS * lanes : 0);
    x += row * plan.stride;
    y += row * plan.columns;

    Packed<T, WIDTH> loaded[VECTORS];
    Packed<W, WIDTH> weights[WEIGHT_FIRST ? VECTORS : 1];
    float values[WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        loaded[v] = {};
        if (present && index < count) loaded[v] = read_packed<T, WIDTH>(x + index * WIDTH);
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
        unpack(loaded[v], values);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) squares += values[i] * values[i];
    }
    const float total = row_sum<REACH>(squares, exchange);
    const float rstd = rsqrtf(total * plan.share + eps);
    const bool never = total < 0.0f;
    if constexpr (!WEIGHT_FIRST) weight += never;  // prevents an earlier read, which would need registers
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        if (present && index < count) {
            float scales[WIDTH];
            if constexpr (!WEIGHT_FIRST) weights[0] = read_packed<W, WIDTH>(weight + index * WIDTH);
            unpack(weights[WEIGHT_FIRST ? v : 0], scales);
            unpack(HOLDS_PACKED ? opaque(loaded[v], never) : loaded[v], values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) values[i] = values[i] * rstd * scales[i];
            write_packed(y + index * WIDTH, pack<T>(values));
        }
    }
}

template <typename W>
int start(const RowPlan& plan, const void* x, const void* weight, void* y, float eps, void* stream) {
#define USE(WIDTH, VECTORS, REACH)                                                                           \
    return launch_rows(rmsnorm_cuda<Element, W, WIDTH, VECTORS, REACH>, plan, stream, (const Element*)x, \
                       (const W*)weight, (Element*)y, eps, plan)
    DISPATCH_ROWS(plan, USE);
#undef USE
}

template <typename W>
int tell(const RowPlan& plan, KernelFacts* facts) {
#define USE(WIDTH, VECTORS, REACH) return describe_rows(rmsnorm_cuda<Element, W, WIDTH, VECTORS, REACH>, plan, facts)
    DISPATCH_ROWS(plan, USE);
#undef USE
}

extern "C" int run(const RowPlan* plan, const void* x, const void* weight, void* y, float eps, void* stream) {
    return plan->weight_is_float ? start<float>(*plan, x, weight, y, eps, stream)
                                 : start<Element>(*plan, x, weight, y, eps, stream);
}

extern "C" int prepare(const RowPlan* plan, KernelFacts* facts) {
    return plan->weight_is_float ? tell<float>(*plan, facts) : tell<Element>(*plan, facts);
}

extern "C" int plan_bytes() { return sizeof(RowPlan); }

// Softmax of rows: y = exp(x - max(x)) / sum(exp(x - max(x))), in float32, rounded once. Compiled with -DElement=... .
#include "rows.cuh"

// Every thread takes powers relative to its own largest value and keeps them, so that one exchange of (largest, sum)
// settles the row and each element costs one exponential. A row of -inf alone, or with +inf or NaN in it, gives NaN.
template <typename T, int WIDTH, int VECTORS, Reach REACH>
__global__ void __launch_bounds__(most_threads(held_bytes<T>(WIDTH, VECTORS), REACH))
    softmax_cuda(const T* __restrict__ x, T* __restrict__ y, RowPlan plan) {
    __shared__ Exchange<REACH> largest_of, sum_of;
    if constexpr (REACH == WITHIN_CLUSTER) announce_start();
    const int64_t row = REACH == WITHIN_CLUSTER ? blockIdx.x / blocks_in_cluster()
                                                : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const bool present = row < plan.rows;
    const int lanes = blockDim.x;
    const int count = plan.columns / WIDTH;
    const int first = threadIdx.x + (REACH == WITHIN_CLUSTER ? rank_in_cluster() * VECTORS * lanes : 0);
    x += row * plan.stride;
    y += row * plan.columns;

    Packed<T, WIDTH> held[VECTORS];
    float powers[VECTORS][WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        if (present && index < count) held[v] = read_packed<T, WIDTH>(x + index * WIDTH);
    }
    float largest = -INFINITY;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const bool inside = present && first + v * lanes < count;
        unpack(held[v], powers[v]);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            powers[v][i] = inside ? powers[v][i] : -INFINITY;
            largest = fmaxf(largest, powers[v][i]);
        }
    }
    const float anchor = largest == -INFINITY ? 0.0f : largest;  // -inf - (-inf) would be NaN
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            powers[v][i] = power_of_two((powers[v][i] - anchor) * LOG2_E);
            sum += powers[v][i];
        }
    }
    // Of the warp, or the part of one that holds a row.
    const int together = REACH == WITHIN_WARP ? lanes : WARP;
    float top = lanes_max(largest, together);
    float total = lanes_sum(largest == -INFINITY ? sum : sum * power_of_two((largest - top) * LOG2_E), together);
    if constexpr (REACH != WITHIN_WARP) {
        before_leaving<REACH>();
        largest_of.leave(top);
        sum_of.leave(total);
        meet<REACH>();
        float part_top = -INFINITY;
        for (int slot = threadIdx.x % WARP; slot < largest_of.count(); slot += WARP) {
            part_top = fmaxf(part_top, largest_of.part[slot]);
        }
        top = lanes_max(part_top, WARP);
        float part_total = 0.0f;
        for (int slot = threadIdx.x % WARP; slot < largest_of.count(); slot += WARP) {
            const float part = largest_of.part[slot];
            part_total += part == -INFINITY ? sum_of.part[slot] : sum_of.part[slot] * power_of_two((part - top) * LOG2_E);
        }
        total = lanes_sum(part_total, WARP);
    }
    const float scale = (largest == -INFINITY ? 1.0f : power_of_two((largest - top) * LOG2_E)) / total;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        if (present && index < count) {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) powers[v][i] *= scale;
            write_packed(y + index * WIDTH, pack<T>(powers[v]));
        }
    }
}

extern "C" int run(const RowPlan* plan, const void* x, void* y, void* stream) {
#define USE(WIDTH, VECTORS, REACH)                                                                                  \
    return launch_rows(softmax_cuda<Element, WIDTH, VECTORS, REACH>, *plan, stream, (const Element*)x, (Element*)y, \
                       *plan)
    DISPATCH_ROWS(*plan, USE);
#undef USE
}

extern "C" int prepare(const RowPlan* plan, KernelFacts* facts) {
#define USE(WIDTH, VECTORS, REACH) return describe_rows(softmax_cuda<Element, WIDTH, VECTORS, REACH>, *plan, facts)
    DISPATCH_ROWS(*plan, USE);
#undef USE
}

extern "C" int plan_bytes() { return sizeof(RowPlan); }

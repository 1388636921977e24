// Softmax of rows: y = exp(x - max(x)) / sum(exp(x - max(x))), in float32, rounded once. Compiled with -DElement=... .
#include "rows.cuh"

// Every thread computes powers relative to its own largest value, so that one exchange of (largest, sum) is enough. If
// there are few powers, they stay in registers; else x does, packed, and the powers are computed again. A row in which
// all elements are -inf, or with +inf or NaN, gives NaN.
//
// Exponents are of two: x * LOG2_E - anchor in one operation, with an anchor of which only its being near the largest
// exponent matters. As all powers of a row are relative to it, its own rounding cancels.
template <typename T, int WIDTH, int VECTORS, Reach REACH>
__global__ void __launch_bounds__(most_threads(register_bytes<T>(WIDTH, VECTORS), REACH),
                                  least_blocks(WIDTH, register_bytes<T>(WIDTH, VECTORS), REACH))
    softmax_cuda(const T* __restrict__ x, T* __restrict__ y, RowPlan plan) {
    __shared__ Exchange<REACH> tops, sums;
    if constexpr (REACH == WITHIN_CLUSTER) announce_start();
    constexpr bool KEEPS_POWERS = sizeof(T) == 4 || WIDTH == 1 || VECTORS == 1;  // in no more registers than x, or few
    const int64_t row = REACH == WITHIN_CLUSTER ? blockIdx.x / blocks_in_cluster()
                                                : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const bool present = row < plan.rows;
    const int lanes = blockDim.x;
    const int count = plan.columns / WIDTH;
    const int first = threadIdx.x + (REACH == WITHIN_CLUSTER ? rank_in_cluster() * VECTORS * lanes : 0);
    x += row * plan.stride;
    y += row * plan.columns;

    Packed<T, WIDTH> loaded[VECTORS];
    float powers[KEEPS_POWERS ? VECTORS : 1][WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) loaded[v].at[i] = from_float<T>(-INFINITY);
        if (present && index < count) loaded[v] = read_packed<T, WIDTH>(x + index * WIDTH);
    }
    float largest = -INFINITY;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) largest = fmaxf(largest, largest_of(loaded[v]));
    largest *= LOG2_E;
    const float anchor = largest == -INFINITY ? 0.0f : largest;  // -inf - (-inf) would be NaN
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        float(&values)[WIDTH] = powers[KEEPS_POWERS ? v : 0];
        unpack(KEEPS_POWERS ? loaded[v] : opaque(loaded[v], anchor != anchor), values);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            values[i] = power_of_two(fmaf(values[i], LOG2_E, -anchor));
            sum += values[i];
        }
    }
    // Over the warp, or the part of a warp that has the row.
    const int together = REACH == WITHIN_WARP ? lanes : WARP;
    float top = lanes_max(largest, together);
    float total = lanes_sum(largest == -INFINITY ? sum : sum * power_of_two(largest - top), together);
    if constexpr (REACH != WITHIN_WARP) {
        before_leaving<REACH>();
        tops.leave(top);
        sums.leave(total);
        meet<REACH>();
        const int lane = threadIdx.x % WARP;
        float part_top = -INFINITY, part_total = 0.0f;
        for (int slot = lane; slot < tops.count(); slot += WARP) part_top = fmaxf(part_top, tops.part[slot]);
        top = lanes_max(part_top, WARP);
        for (int slot = lane; slot < tops.count(); slot += WARP) {
            const float part = tops.part[slot];
            part_total += part == -INFINITY ? sums.part[slot] : sums.part[slot] * power_of_two(part - top);
        }
        total = lanes_sum(part_total, WARP);
    }
    const float whole = 1.0f / total;
    const float scale = largest == -INFINITY ? whole : whole * power_of_two(largest - top);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int index = first + v * lanes;
        if (present && index < count) {
            float(&values)[WIDTH] = powers[KEEPS_POWERS ? v : 0];
            if constexpr (!KEEPS_POWERS) unpack(opaque(loaded[v], total < 0.0f), values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                values[i] = KEEPS_POWERS ? values[i] * scale : power_of_two(fmaf(values[i], LOG2_E, -top)) * whole;
            }
            write_packed(y + index * WIDTH, pack<T>(values));
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

// Rotary embedding of queries and keys, half-split: feature i of a head is turned with feature i + R/2, in float32,
// rounded once. Compiled with -DElement=... .
#include "packed.cuh"

struct Strides {
    int64_t batch, head, token;  // in elements
};

// The same fields, in the same order, as `_RopePlan` in cuda_rope.py. Queries come first; k_heads is 0 without keys.
struct RopePlan {
    Strides q, k, q_out, k_out;
    int64_t cos_batch, cos_token, sin_batch, sin_token;
    int32_t batches, q_heads, k_heads, tokens, features;
    int32_t half;    // pairs of a head that are turned: R/2
    int32_t width;   // elements a vector: 16 bytes of them, or 1
    int32_t heads;   // that a thread turns with the angles in its registers
    int32_t token_lanes;  // positions of a block
    int32_t group_lanes;  // groups of heads of a block
    int32_t heads_are_near;  // heads are nearer to each other in memory than positions
    int32_t angles_are_float;
    int32_t inverse;
    int32_t in_place;
};

// Block: (vectors of half a head, token_lanes, group_lanes). One thread reads and writes a pair, so in place is safe.
template <typename T, typename A, int WIDTH, int HEADS>
__global__ void __launch_bounds__(512)
    rope_cuda(const T* q, const T* k, T* q_out, T* k_out, const A* __restrict__ cos, const A* __restrict__ sin,
              RopePlan plan) {
    const int group = (plan.heads_are_near ? blockIdx.x : blockIdx.y) * blockDim.z + threadIdx.z;
    const int tile = plan.heads_are_near ? blockIdx.y : blockIdx.x;
    const int64_t token = static_cast<int64_t>(tile) * blockDim.y + threadIdx.y;
    const int64_t batch = blockIdx.z;
    const int q_groups = (plan.q_heads + HEADS - 1) / HEADS;
    const bool is_query = group < q_groups;
    const int first = (is_query ? group : group - q_groups) * HEADS;
    const int heads = is_query ? plan.q_heads : plan.k_heads;
    if (token >= plan.tokens || first >= heads) return;
    const Strides from = is_query ? plan.q : plan.k, to = is_query ? plan.q_out : plan.k_out;
    const T* x = (is_query ? q : k) + batch * from.batch + token * from.token + first * from.head;
    T* y = (is_query ? q_out : k_out) + batch * to.batch + token * to.token + first * to.head;
    cos += batch * plan.cos_batch + token * plan.cos_token;
    sin += batch * plan.sin_batch + token * plan.sin_token;

    for (int pair = threadIdx.x * WIDTH; pair < plan.half; pair += blockDim.x * WIDTH) {
        const Packed<A, WIDTH> cosines = read_packed<A, WIDTH>(cos + pair);
        const Packed<A, WIDTH> sines = read_packed<A, WIDTH>(sin + pair);
        Packed<T, WIDTH> as[HEADS], bs[HEADS];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            if (first + h < heads) {
                as[h] = read_packed<T, WIDTH>(x + h * from.head + pair);
                bs[h] = read_packed<T, WIDTH>(x + h * from.head + plan.half + pair);
            }
        }
        float c[WIDTH], s[WIDTH], a[WIDTH], b[WIDTH], turned[WIDTH];
        unpack(cosines, c);
        unpack(sines, s);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) s[i] = plan.inverse ? -s[i] : s[i];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            if (first + h < heads) {
                unpack(as[h], a);
                unpack(bs[h], b);
#pragma unroll
                for (int i = 0; i < WIDTH; i++) turned[i] = a[i] * c[i] - b[i] * s[i];
                write_packed(y + h * to.head + pair, pack<T>(turned));
#pragma unroll
                for (int i = 0; i < WIDTH; i++) turned[i] = a[i] * s[i] + b[i] * c[i];
                write_packed(y + h * to.head + plan.half + pair, pack<T>(turned));
            }
        }
    }
    if (plan.in_place) return;
    for (int feature = 2 * plan.half + threadIdx.x; feature < plan.features; feature += blockDim.x) {
        for (int h = 0; h < HEADS && first + h < heads; h++) y[h * to.head + feature] = x[h * from.head + feature];
    }
}

template <typename A, typename Kernel>
int start(Kernel kernel, const RopePlan& plan, const void* q, const void* k, void* q_out, void* k_out, const void* cos,
          const void* sin, void* stream) {
    const unsigned groups =
        (plan.q_heads + plan.heads - 1) / plan.heads + (plan.k_heads + plan.heads - 1) / plan.heads;
    const unsigned group_blocks = (groups + plan.group_lanes - 1) / plan.group_lanes;
    const unsigned tiles = (plan.tokens + plan.token_lanes - 1) / plan.token_lanes;
    const unsigned batches = plan.batches;
    const dim3 grid = plan.heads_are_near ? dim3(group_blocks, tiles, batches) : dim3(tiles, group_blocks, batches);
    const int vectors = (plan.half + plan.width - 1) / plan.width;
    const int side_by_side = plan.token_lanes * plan.group_lanes;
    const dim3 block(vectors < 512 / side_by_side ? vectors : 512 / side_by_side, plan.token_lanes, plan.group_lanes);
    kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const Element*>(q), static_cast<const Element*>(k), static_cast<Element*>(q_out),
        static_cast<Element*>(k_out), static_cast<const A*>(cos), static_cast<const A*>(sin), plan);
    return cudaGetLastError();
}

#define DISPATCH(plan, USE)                             \
    do {                                                \
        constexpr int WIDTH = 16 / sizeof(Element);     \
        const bool wide = (plan).width > 1;             \
        if ((plan).angles_are_float) {                  \
            if (wide && (plan).heads == 1) USE(float, WIDTH, 1);   \
            if (wide && (plan).heads == 2) USE(float, WIDTH, 2);   \
            if (wide && (plan).heads == 4) USE(float, WIDTH, 4);   \
            if (!wide && (plan).heads == 2) USE(float, 1, 2);      \
        } else {                                        \
            if (wide && (plan).heads == 1) USE(Element, WIDTH, 1); \
            if (wide && (plan).heads == 2) USE(Element, WIDTH, 2); \
            if (wide && (plan).heads == 4) USE(Element, WIDTH, 4); \
            if (!wide && (plan).heads == 2) USE(Element, 1, 2);    \
        }                                               \
        return cudaErrorInvalidValue;                   \
    } while (0)

extern "C" int run(const RopePlan* plan, const void* q, const void* k, void* q_out, void* k_out, const void* cos,
                   const void* sin, void* stream) {
#define USE(A, WIDTH, HEADS) \
    return start<A>(rope_cuda<Element, A, WIDTH, HEADS>, *plan, q, k, q_out, k_out, cos, sin, stream)
    DISPATCH(*plan, USE);
#undef USE
}

extern "C" int prepare(const RopePlan* plan, KernelFacts* facts) {
#define USE(A, WIDTH, HEADS) return describe(rope_cuda<Element, A, WIDTH, HEADS>, facts)
    DISPATCH(*plan, USE);
#undef USE
}

extern "C" int plan_bytes() { return sizeof(RopePlan); }

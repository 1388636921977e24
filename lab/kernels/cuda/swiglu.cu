// SwiGLU, element by element: y = gate / (1 + exp(-gate)) * up, in float32, rounded once. Compiled with -DElement=... .
#include "packed.cuh"

// The same fields, in the same order, as `_GluPlan` in cuda_glu.py.
struct GluPlan {
    int64_t rows;
    int64_t columns;      // of a row; all elements if rows follow each other in memory without gaps
    int64_t gate_stride;  // in elements
    int64_t up_stride;
    int32_t width;    // elements a vector: 16 bytes of them, or 1
    int32_t vectors;  // of a thread
    int32_t threads;
};

// VECTORS vectors of gate and of up a thread, all loaded before the first is used.
template <typename T, int WIDTH, int VECTORS>
__global__ void swiglu_cuda(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ y, GluPlan plan) {
    const int64_t count = plan.columns / WIDTH;
    const int64_t tile_vectors = static_cast<int64_t>(blockDim.x) * VECTORS;
    int64_t tile = blockIdx.x;
    if (plan.rows > 1) {
        const unsigned tiles = static_cast<unsigned>((plan.columns + tile_vectors * WIDTH - 1) / (tile_vectors * WIDTH));
        const int64_t row = blockIdx.x / tiles;
        tile = blockIdx.x % tiles;
        gate += row * plan.gate_stride;
        up += row * plan.up_stride;
        y += row * plan.columns;
    }
    Packed<T, WIDTH> gates[VECTORS], ups[VECTORS];
    float g[WIDTH], u[WIDTH];
    const int64_t first = tile * tile_vectors + threadIdx.x;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int64_t index = first + v * blockDim.x;
        if (index < count) {
            gates[v] = read_packed<T, WIDTH>(gate + index * WIDTH);
            ups[v] = read_packed<T, WIDTH>(up + index * WIDTH);
        }
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int64_t index = first + v * blockDim.x;
        if (index < count) {
            unpack(gates[v], g);
            unpack(ups[v], u);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) g[i] = __fdividef(g[i], 1.0f + power_of_two(-LOG2_E * g[i])) * u[i];
            write_packed(y + index * WIDTH, pack<T>(g));
        }
    }
    // The rest of a row after its last vector, up to WIDTH - 1 elements.
    const int64_t last = count * WIDTH + threadIdx.x;
    if (WIDTH > 1 && last < plan.columns && tile == count / tile_vectors) {
        const float g_last = static_cast<float>(gate[last]);
        const float silu = __fdividef(g_last, 1.0f + power_of_two(-LOG2_E * g_last));
        y[last] = from_float<T>(silu * static_cast<float>(up[last]));
    }
}

#define DISPATCH(plan, USE)                       \
    do {                                          \
        constexpr int WIDTH = 16 / sizeof(Element); \
        if ((plan).width == 1) USE(1, 4);         \
        switch ((plan).vectors) {                 \
            case 1: USE(WIDTH, 1);                \
            case 2: USE(WIDTH, 2);                \
            case 4: USE(WIDTH, 4);                \
        }                                         \
        return cudaErrorInvalidValue;             \
    } while (0)

template <typename Kernel>
int start(Kernel kernel, const GluPlan& plan, const void* gate, const void* up, void* y, void* stream) {
    const int64_t tile = static_cast<int64_t>(plan.threads) * plan.vectors * plan.width;
    const int64_t blocks = plan.rows * ((plan.columns + tile - 1) / tile);
    kernel<<<static_cast<unsigned>(blocks), plan.threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const Element*>(gate), static_cast<const Element*>(up), static_cast<Element*>(y), plan);
    return cudaGetLastError();
}

extern "C" int run(const GluPlan* plan, const void* gate, const void* up, void* y, void* stream) {
#define USE(WIDTH, VECTORS) return start(swiglu_cuda<Element, WIDTH, VECTORS>, *plan, gate, up, y, stream)
    DISPATCH(*plan, USE);
#undef USE
}

extern "C" int prepare(const GluPlan* plan, KernelFacts* facts) {
#define USE(WIDTH, VECTORS) return describe(swiglu_cuda<Element, WIDTH, VECTORS>, facts)
    DISPATCH(*plan, USE);
#undef USE
}

extern "C" int plan_bytes() { return sizeof(GluPlan); }

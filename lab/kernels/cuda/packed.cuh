// Packed vectors: up to 16 bytes that a thread reads and writes at once, and their elements as float32.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr float LOG2_E = 1.4426950408889634f;

// Registers, spills and shared memory of a compiled kernel, for the record of a launch.
struct KernelFacts {
    int32_t registers;
    int32_t spilled_bytes;
    int32_t shared_bytes;
};

template <typename T, int WIDTH>
struct alignas(sizeof(T) * WIDTH < 16 ? sizeof(T) * WIDTH : 16) Packed {
    T at[WIDTH];
};

template <typename T, int WIDTH>
__device__ __forceinline__ Packed<T, WIDTH> read_packed(const T* from) {
    return *reinterpret_cast<const Packed<T, WIDTH>*>(from);
}

template <typename T, int WIDTH>
__device__ __forceinline__ void write_packed(T* to, const Packed<T, WIDTH>& values) {
    *reinterpret_cast<Packed<T, WIDTH>*>(to) = values;
}

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half from_float<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

template <typename T, int WIDTH>
__device__ __forceinline__ void unpack(const Packed<T, WIDTH>& packed, float (&values)[WIDTH]) {
    if constexpr (sizeof(T) == 2 && WIDTH % 2 == 0) {
#pragma unroll
        for (int i = 0; i < WIDTH; i += 2) {
            float2 pair;
            if constexpr (sizeof(T) == 2 && __is_same(T, __half)) {
                pair = __half22float2(__halves2half2(packed.at[i], packed.at[i + 1]));
            } else {
                pair = __bfloat1622float2(__halves2bfloat162(packed.at[i], packed.at[i + 1]));
            }
            values[i] = pair.x;
            values[i + 1] = pair.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) values[i] = static_cast<float>(packed.at[i]);
    }
}

__device__ __forceinline__ __half2 larger(__half2 a, __half2 b) { return __hmax2(a, b); }
__device__ __forceinline__ __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmax2(a, b); }

// The largest element, but for NaN. 16-bit elements are compared in pairs, without a conversion.
template <typename T, int WIDTH>
__device__ __forceinline__ float largest_of(const Packed<T, WIDTH>& packed) {
    if constexpr (sizeof(T) == 2 && WIDTH % 2 == 0) {
        using Pair = std::conditional_t<__is_same(T, __half), __half2, __nv_bfloat162>;
        const Pair* pairs = reinterpret_cast<const Pair*>(packed.at);
        Pair top = pairs[0];
#pragma unroll
        for (int i = 1; i < WIDTH / 2; i++) top = larger(top, pairs[i]);
        return fmaxf(static_cast<float>(top.x), static_cast<float>(top.y));
    } else {
        float top = static_cast<float>(packed.at[0]);
#pragma unroll
        for (int i = 1; i < WIDTH; i++) top = fmaxf(top, static_cast<float>(packed.at[i]));
        return top;
    }
}

template <typename T, int WIDTH>
__device__ __forceinline__ Packed<T, WIDTH> pack(const float (&values)[WIDTH]) {
    Packed<T, WIDTH> packed;
    if constexpr (sizeof(T) == 2 && WIDTH % 2 == 0) {
#pragma unroll
        for (int i = 0; i < WIDTH; i += 2) {
            if constexpr (__is_same(T, __half)) {
                const __half2 pair = __floats2half2_rn(values[i], values[i + 1]);
                packed.at[i] = pair.x;
                packed.at[i + 1] = pair.y;
            } else {
                const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], values[i + 1]);
                packed.at[i] = pair.x;
                packed.at[i + 1] = pair.y;
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) packed.at[i] = from_float<T>(values[i]);
    }
    return packed;
}

// `packed` unchanged, because `never` is always false. The compiler cannot know that: else it would keep the float32
// values that it made of `packed` before, in twice the registers, instead of converting again, or convert too early.
template <typename T, int WIDTH>
__device__ __forceinline__ Packed<T, WIDTH> opaque(Packed<T, WIDTH> packed, bool never) {
    if constexpr (sizeof(packed) == 16) {
        const uint32_t nothing = never;
        uint4& words = reinterpret_cast<uint4&>(packed);
        words.x ^= nothing;
        words.y ^= nothing;
        words.z ^= nothing;
        words.w ^= nothing;
    }
    return packed;
}

__device__ __forceinline__ float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// Loads the kernel, which is not allowed later while a stream is captured, and reports the resources that it uses.
template <typename Kernel>
int describe(Kernel kernel, KernelFacts* facts) {
    cudaFuncAttributes attributes;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel)) return error;
    facts->registers = attributes.numRegs;
    facts->spilled_bytes = static_cast<int32_t>(attributes.localSizeBytes);
    facts->shared_bytes = static_cast<int32_t>(attributes.sharedSizeBytes);
    return cudaSuccess;
}

extern "C" inline __attribute__((used)) const char* error_text(int error) {
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

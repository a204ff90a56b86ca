// Marks for functions that are compiled for the CPU and, by nvcc, for the GPU too.
#pragma once

#if defined(__CUDACC__)
#define RONDO_HOST_DEVICE __host__ __device__
#else
#define RONDO_HOST_DEVICE
#endif

// Before a loop of few turns: written out, so that arrays it indexes can be registers. What nvcc compiles for
// the host knows neither pragma, and is not what runs there.
#if defined(__CUDA_ARCH__)
#define RONDO_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define RONDO_UNROLL
#else
#define RONDO_UNROLL _Pragma("GCC unroll 16")
#endif

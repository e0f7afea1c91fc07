// One function compiled for several generations of processors; the best one is chosen when the program starts.
#pragma once

// The thread sanitizer instruments the function that chooses a copy, which runs before the sanitizer is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TERRACE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
// Two loops over a few elements of bf16 use this one, since GCC 12 makes them slower with AVX-512 than without.
#define TERRACE_VECTOR_CLONES_OF_256_BITS __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TERRACE_VECTOR_CLONES
#define TERRACE_VECTOR_CLONES_OF_256_BITS
#endif

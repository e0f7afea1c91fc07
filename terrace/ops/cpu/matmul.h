// Our own matrix products for processors with AVX-512 or AVX2. Bias, activation or accumulation into a wider gradient
// are applied while the values of the product are in the cache.
//
// Method: panels of columns of B are packed so that one row of a panel is a few vectors (64 columns with AVX-512, 16
// with AVX2); tiles of 6 rows and a panel's columns of C stay in registers over a block of k, so that the rows of A
// stay in the level-1 cache and the panels in the level-2 cache (Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication", 2008). With AVX-512 bf16 is multiplied in pairs along k by the instruction VDPBF16PS and
// summed in fp32; with AVX2 elements of 16 bits become fp32 when they are packed. Every element of C is one sum over k
// in ascending order (of pairs in bf16 with AVX-512), so it depends neither on the number of threads nor on m, n or the
// place of a cut along them. Sums of fp32 are the same bits with both vectors.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "terrace/base/operation_limits.h"
#include "terrace/ops/cpu/vector_set.h"

namespace terrace::ops::cpu {

// One factor, [rows, k] or its transpose, with elements of the product's type.
struct Factor {
  const void* data = nullptr;
  int64_t stride = 0;   // elements between neighbours in the other dimension
  bool k_inner = true;  // k is the contiguous dimension
};

// The operation on the value c of the product at (i, j).
struct Finish {
  enum class Kind {
    store,          // out = c + bias[j]
    accumulate,     // out += c
    gelu,           // inner = c + bias[j], out = gelu(inner)
    gelu_backward,  // out = c * gelu'(inner)
    // A product of pairs of columns: inner = c + bias[j] [m, n] holds gates and ups interleaved, out [m, n / 2] =
    // silu(gate) * up.
    swiglu,
    swiglu_backward,  // out [m, 2n] = the gradients of the pairs `inner` [m, 2n], where c is that of silu(gate) * up
    exponentials,     // out = exp(c - references[i]) in the first `counted` columns, else 0; and sums of these
    // With a weight of each row, such as an expert's share in a token: out = weights[i] * what gelu or swiglu gives,
    // and backward out = weights[i] * what theirs gives, and sums over every weight_columns columns of c times the
    // activation, from which the gradients of the weights follow.
    weighted_gelu,
    weighted_gelu_backward,
    weighted_swiglu,
    weighted_swiglu_backward,
  };
  Kind kind = Kind::store;
  void* out = nullptr;  // [m, n] unless stated otherwise
  int64_t out_stride = 0;
  c10::ScalarType out_type = c10::ScalarType::Float;  // fp32, or the type of the product
  const void* bias = nullptr;                         // [n] of the type of the product; null: no bias
  void* inner = nullptr;                              // of the type of the product
  int64_t inner_stride = 0;
  const float* references = nullptr;  // [m]
  int64_t counted = 0;
  // [m, ceil(n / sum_columns)] of exponentials over every sum_columns columns, before rounding; or [m, ceil(n /
  // weight_columns)]
  float* sums = nullptr;
  int64_t sums_stride = 0;
  const float* factors = nullptr;  // [m]: `store` multiplies c by these, before it adds the bias; null: by 1
  const float* weights = nullptr;  // [m], of the kinds with weights
};

// Whether `out` has a column for each pair of columns of C, or a pair of columns for each.
constexpr bool halves_columns(Finish::Kind kind) {
  return kind == Finish::Kind::swiglu || kind == Finish::Kind::weighted_swiglu;
}
constexpr bool doubles_columns(Finish::Kind kind) {
  return kind == Finish::Kind::swiglu_backward || kind == Finish::Kind::weighted_swiglu_backward;
}

constexpr int64_t sum_columns = product_sum_columns;
constexpr int64_t weight_columns = 16;

// Whether this processor has the instructions for products of the type.
inline bool has_matmul(c10::ScalarType type) { return vector_set(type) != VectorSet::none; }

// C [m, n] = A [m, k] B [k, n], stored as `finish` says. `type` is the type of A and B; has_matmul(type) must be true.
void matmul(c10::ScalarType type, const Factor& a, const Factor& b, int64_t m, int64_t n, int64_t k,
            const Finish& finish);

// One product of several.
struct TeamProduct {
  Factor a, b;
  int64_t m = 0, n = 0, k = 0;
  Finish finish;
};

// Computes products of different sizes, such as those of experts, with the bits that matmul() gives each. All are
// divided among the threads as one piece of work: a thread computes whole products one after another, and a product
// whose share of the work passes a thread's is computed by several. No kind may be `exponentials`.
void matmul_team(c10::ScalarType type, const std::vector<TeamProduct>& products);

}  // namespace terrace::ops::cpu

// Checks that the kernels for both kinds of vectors, of which a processor without AVX-512 runs only those of AVX2,
// agree: products of fp32 bit for bit, and all else with double precision. Where the environment's ATEN_CPU_CAPABILITY
// holds the program to AVX2, all other tests of this room run those kernels too (house.vector_sets).
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "terrace/ops/cpu/registers.h"
#include "terrace/ops/cpu/vector_set.h"
#include "terrace/ops/cpu/vectors/kernels.h"
#include "terrace/ops/products/products.h"

namespace terrace::ops::cpu {
namespace {

#if defined(__x86_64__) && defined(__GNUC__)

at::Tensor normal(at::IntArrayRef shape, at::ScalarType type = at::kFloat, uint64_t seed = 5) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions()).to(type);
}

// Tests for a processor that runs the kernels of AVX2, also where it runs wider ones.
class Avx2Kernels : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::set_num_threads(2);
    if (!has_kernels_of_32_bytes()) GTEST_SKIP() << "this processor has no AVX2, FMA and F16C, or may not use them";
  }
};

// A factor [rows, k] as it lies, or stored as its transpose.
struct Stored {
  at::Tensor memory;
  Factor factor;

  Stored(const at::Tensor& matrix, bool k_inner) : memory(k_inner ? matrix : matrix.t().contiguous()) {
    factor = {memory.const_data_ptr(), memory.stride(0), k_inner};
  }
};

using Matmul = void (*)(c10::ScalarType, const Factor&, const Factor&, int64_t, int64_t, int64_t, const Finish&);

struct ProductCase {
  int64_t m, n, k;
  bool a_k_inner, b_k_inner;
};

constexpr ProductCase product_cases[] = {{1, 1, 1, true, true},       {7, 66, 33, true, false},
                                         {97, 200, 1700, true, true}, {50, 130, 900, false, false},
                                         {13, 34, 2100, false, true}, {2100, 1700, 40, false, false}};

TEST_F(Avx2Kernels, ProductsOfFp32HaveTheBitsOfTheWiderVectors) {
  if (!has_registers_of_64_bytes()) GTEST_SKIP() << "this processor has no AVX-512, or may not use it";
  for (const ProductCase& c : product_cases) {
    SCOPED_TRACE(::testing::Message() << c.m << " x " << c.k << " x " << c.n);
    const at::Tensor a = normal({c.m, c.k}), b = normal({c.n, c.k}, at::kFloat, 6), factors = normal({c.m});
    const Stored first(a, c.a_k_inner), second(b, c.b_k_inner);
    const auto product = [&](Matmul matmul, Finish::Kind kind) {
      const at::Tensor out = normal({c.m, c.n}, at::kFloat, 7);
      Finish finish{.kind = kind, .out = out.mutable_data_ptr(), .out_stride = c.n};
      if (kind == Finish::Kind::store) finish.factors = factors.const_data_ptr<float>();
      matmul(at::kFloat, first.factor, second.factor, c.m, c.n, c.k, finish);
      return out;
    };
    for (const Finish::Kind kind : {Finish::Kind::store, Finish::Kind::accumulate}) {
      EXPECT_TRUE(product(avx2::matmul, kind).equal(product(avx512::matmul, kind)));
    }
  }
}

// The largest error, in units of what may be expected of a sum of k products in fp32 that is then rounded to the type:
// `sizes` are the sums of the products' absolute values. The factor 6 of the square root makes a larger error less
// likely than 1e-7 (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, theorem 2.4).
double largest_error(const at::Tensor& found, const at::Tensor& truth, const at::Tensor& sizes, int64_t k) {
  const double unit = found.scalar_type() == at::kFloat ? 0x1p-24 : found.scalar_type() == at::kHalf ? 0x1p-11 : 0x1p-8;
  const at::Tensor expected = truth.abs().mul(unit).add(sizes.mul(6 * std::sqrt(static_cast<double>(k)) * 0x1p-24));
  return found.to(at::kDouble).sub(truth).abs().div(expected).max().item<double>();
}

TEST_P(Avx2Kernels, ProductsAreRoundedOnce) {
  for (const ProductCase& c : product_cases) {
    SCOPED_TRACE(::testing::Message() << c.m << " x " << c.k << " x " << c.n);
    const at::Tensor a = normal({c.m, c.k}, GetParam()), b = normal({c.n, c.k}, GetParam(), 6);
    const Stored first(a, c.a_k_inner), second(b, c.b_k_inner);
    const at::Tensor wide_a = a.to(at::kDouble), wide_b = b.to(at::kDouble).t(), truth = wide_a.mm(wide_b);
    const at::Tensor sizes = wide_a.abs().mm(wide_b.abs()).add(1);  // and the bias
    const at::Tensor bias = normal({c.n}, GetParam(), 8);
    for (const at::ScalarType out_type : {at::kFloat, GetParam()}) {
      const at::Tensor out = at::empty({c.m, c.n}, at::TensorOptions().dtype(out_type));
      Finish finish{
          .out = out.mutable_data_ptr(), .out_stride = c.n, .out_type = out_type, .bias = bias.const_data_ptr()};
      avx2::matmul(GetParam(), first.factor, second.factor, c.m, c.n, c.k, finish);
      EXPECT_LE(largest_error(out, truth.add(bias.to(at::kDouble)), sizes, c.k), 1.0) << c10::toString(out_type);
    }
  }
}

// exp(c - reference) and its sums over 64 columns, also where a sum is over several panels.
TEST_P(Avx2Kernels, ExponentialsAndTheirSums) {
  if (GetParam() == at::kHalf) GTEST_SKIP() << "exponentials of fp16 would leave its range";
  const int64_t m = 41, n = 330, k = 24, counted = 301, parts = exponential_sums(n);
  const at::Tensor a = normal({m, k}, GetParam()), b = normal({n, k}, GetParam(), 6).mul(0.3), references = normal({m});
  const at::Tensor out = at::empty({m, n}, a.options()), sums = at::empty({m, parts});
  const Stored first(a, true), second(b, true);
  avx2::matmul(GetParam(), first.factor, second.factor, m, n, k,
               {.kind = Finish::Kind::exponentials,
                .out = out.mutable_data_ptr(),
                .out_stride = n,
                .out_type = GetParam(),
                .references = references.const_data_ptr<float>(),
                .counted = counted,
                .sums = sums.mutable_data_ptr<float>(),
                .sums_stride = parts});
  at::Tensor truth = a.to(at::kDouble).mm(b.to(at::kDouble).t()).sub(references.to(at::kDouble).unsqueeze(1)).exp();
  truth.narrow(1, counted, n - counted).zero_();
  const double tolerance = GetParam() == at::kFloat ? 2e-6 : 0x1p-8;
  EXPECT_LE(out.to(at::kDouble).sub(truth).abs().sub(truth.mul(tolerance)).max().item<double>(), 0);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = part * sum_columns;
    const at::Tensor sum = truth.narrow(1, begin, std::min(sum_columns, n - begin)).sum(1);
    // Sums are of values that have not been rounded to the type; those of 16 bits have a shorter polynomial.
    const double relative = GetParam() == at::kFloat ? 2e-6 : 5e-6;
    EXPECT_LE(sums.select(1, part).to(at::kDouble).sub(sum).abs().sub(sum.mul(relative)).max().item<double>(), 0);
  }
}

// Causal softmax(Q K^T / sqrt(hd)) V of one head.
TEST_P(Avx2Kernels, AttentionOfSeveralBlocksIsRoundedOnce) {
  for (const auto& [length, head_dim] : {std::pair<int64_t, int64_t>{300, 64}, {37, 23}, {140, 200}}) {
    SCOPED_TRACE(::testing::Message() << length << " positions, heads of " << head_dim);
    const at::Tensor joint = normal({2, length, 3 * head_dim}, GetParam());
    AttentionInput input;
    input.layout = {.groups = 1, .queries_per_group = 1, .head_dim = head_dim};
    input.joint = joint;
    const at::Tensor context = at::empty({2, length, head_dim}, joint.options()), log_sums = at::empty({2, 1, length});
    avx2::attention_kernels(GetParam()).forward(input, context, log_sums);
    const at::Tensor wide = joint.to(at::kDouble);
    const auto part = [&](int64_t index) { return wide.narrow(2, index * head_dim, head_dim); };
    const at::Tensor hidden = at::triu(at::zeros({length, length}, wide.options()).add(1), 1).to(at::kBool);
    const at::Tensor scores =
        at::matmul(part(0), part(1).transpose(1, 2)).div(std::sqrt(static_cast<double>(head_dim)));
    const at::Tensor truth =
        at::matmul(at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 2), part(2));
    // Scores of about 1 and weights that add up to 1, of values whose largest is about 4.
    EXPECT_LE(largest_error(context, truth, at::zeros_like(truth).add(4), head_dim), 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Avx2Kernels, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// Our kernels use no wider vectors than the environment allows torch.
TEST(VectorSet, IsNoWiderThanTorchs) {
  const std::string torchs = at::get_cpu_capability();
  if (torchs != "AVX512") {
    EXPECT_NE(vector_set(at::kFloat), VectorSet::avx512);
  }
  if (torchs != "AVX512" && torchs != "AVX2") {
    EXPECT_EQ(vector_set(at::kFloat), VectorSet::none);
  }
  EXPECT_EQ(vector_set(at::kDouble), VectorSet::none);
}

#endif

}  // namespace
}  // namespace terrace::ops::cpu

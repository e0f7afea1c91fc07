// Tests that what is decoded with other rows has the bits of what is decoded alone, and is exact to rounding.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/ops/attention/cached_attention.h"
#include "terrace/ops/products/products.h"
#include "tests/pytorch/judge.h"

namespace terrace::ops {
namespace {

struct Decoding : ::testing::TestWithParam<at::ScalarType> {
  at::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, generator, at::TensorOptions()).to(GetParam()); }
  at::Tensor integers(at::IntArrayRef sizes) {
    return at::randint(-2, 3, sizes, generator, at::TensorOptions()).to(GetParam());
  }

  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  at::NoGradGuard no_grad;
};

INSTANTIATE_TEST_SUITE_P(Types, Decoding, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

at::Tensor in_double(const at::Tensor& x) { return x.to(at::kDouble); }

TEST_P(Decoding, ProductsAreExactOnSmallIntegersInEveryShape) {
  for (const int64_t rows : {1, 4, 7, 13}) {
    for (const int64_t inputs : {1, 31, 64, 77}) {
      for (const int64_t outputs : {1, 6, 16, 35}) {
        const at::Tensor x = integers({rows, inputs}), weight = integers({outputs, inputs}), bias = integers({outputs});
        const at::Tensor exact = in_double(x).mm(in_double(weight).t());
        const at::Tensor y = times_transposed(x, weight, bias, Products::decoding);
        EXPECT_TRUE(y.equal(exact.add(in_double(bias)).to(GetParam()))) << rows << " " << inputs << " " << outputs;
        const at::Tensor into = at::zeros({rows, outputs + 3}, x.options()).narrow(1, 2, outputs);
        times_transposed_into(into, x, weight, Products::decoding);
        EXPECT_TRUE(into.equal(exact.to(GetParam()))) << rows << " " << inputs << " " << outputs;
      }
    }
  }
}

TEST_P(Decoding, ARowOfAProductHasTheBitsThatItHasAlone) {
  const at::Tensor x = normal({19, 100}), weight = normal({70, 100}), bias = normal({70});
  for (const Activation activation : {Activation::gelu, Activation::gelu_erf, Activation::swiglu}) {
    SCOPED_TRACE(static_cast<int>(activation));
    const auto compute = [&](const at::Tensor& rows) {
      const auto [inner, active] = times_transposed_activated(rows, weight, bias, Products::decoding, activation);
      EXPECT_TRUE(times_transposed(rows, weight, bias, Products::decoding).equal(inner));
      return at::cat({inner, active}, 1);
    };
    const at::Tensor together = compute(x);
    const at::Tensor inner = together.narrow(1, 0, 70), active = together.narrow(1, 70, together.size(1) - 70);
    const at::Tensor theirs = activated(inner, activation), exact = activated(in_double(inner), activation);
    EXPECT_TRUE(testing::as_accurate(active, theirs, exact, GetParam()));
    const at::Tensor exact_inner = in_double(x).mm(in_double(weight).t()).add(in_double(bias));
    EXPECT_TRUE(
        testing::as_accurate(inner, times_transposed(x, weight, bias, Products::torch), exact_inner, GetParam()));
    for (const int64_t count : {1, 2, 3, 5, 6, 7, 8, 12}) {
      for (const int threads : {1, 3}) {
        at::set_num_threads(threads);
        EXPECT_TRUE(compute(x.narrow(0, 4, count)).equal(together.narrow(0, 4, count))) << count << " on " << threads;
      }
    }
    at::set_num_threads(1);
  }
}

// Sequences of these lengths in the slots of one cache.
struct Sequences {
  std::vector<int64_t> slots, sizes;
};

at::Tensor attend(const Heads& heads, const at::Tensor& keys, const at::Tensor& values, const Sequences& sequences) {
  return cached_attention(heads, {keys, values, sequences.slots, sequences.sizes});
}

TEST_P(Decoding, CachedAttentionMatchesTheWholeAndHasTheBitsOfOne) {
  for (const auto& [groups, per_group, head_dim] : {std::tuple{3, 1, 8}, {2, 7, 40}, {1, 4, 64}, {1, 1, 100}}) {
    const Sequences all{{4, 0, 2}, {0, 5, 33}};
    const Heads heads{normal({3, groups * per_group, 1, head_dim}), normal({3, groups, 1, head_dim}),
                      normal({3, groups, 1, head_dim})};
    const at::Tensor keys = normal({5, groups, 34, head_dim}), values = normal({5, groups, 34, head_dim});
    const at::Tensor own_keys = keys.clone(), own_values = values.clone();
    const at::Tensor together = attend(heads, keys, values, all);
    for (size_t row = 0; row < 3; ++row) {
      const auto b = static_cast<int64_t>(row), slot = all.slots[row], size = all.sizes[row];
      const Heads one{heads.queries.narrow(0, b, 1), heads.keys.narrow(0, b, 1), heads.values.narrow(0, b, 1)};
      const at::Tensor alone = attend(one, own_keys, own_values, {{slot}, {size}});
      EXPECT_TRUE(alone.equal(together.narrow(0, b, 1))) << b;
      const auto whole = [&](const at::Tensor& cache) {
        return in_double(cache.narrow(0, slot, 1).narrow(2, 0, size + 1));
      };
      EXPECT_TRUE(keys.select(0, slot).narrow(1, size, 1).equal(heads.keys.select(0, b)));
      const Heads exact{in_double(one.queries), whole(keys), whole(values)};
      const at::Tensor expected = attention(exact, {}, {}, "", Visibility::all);
      const Heads rounded{one.queries, exact.keys.to(GetParam()), exact.values.to(GetParam())};
      const at::Tensor torchs = attention(rounded, {}, {}, "", Visibility::all);
      EXPECT_TRUE(testing::as_accurate(alone, torchs, expected, GetParam())) << b << " of " << head_dim;
    }
    EXPECT_TRUE(keys.equal(own_keys) && values.equal(own_values));
  }
}

}  // namespace
}  // namespace terrace::ops

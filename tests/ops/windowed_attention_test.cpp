// Checks the arguments of torch's flash attention for windows against a mask. Without a GPU the operation is the one
// below, which follows its definition.
#include "terrace/ops/windowed_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "terrace/base/error.h"

namespace terrace::ops {
namespace {

using Optional = const std::optional<at::Tensor>&;

// Query i of `length` sees the keys j with -left <= j - i <= right.
at::Tensor probabilities(const at::Tensor& query, const at::Tensor& key, int64_t left, int64_t right) {
  const int64_t length = query.size(1), group = query.size(2) / key.size(2);
  const at::Tensor queries = query.transpose(1, 2), keys = key.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(queries, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor places = at::arange(length), distance = places - places.unsqueeze(1);
  const at::Tensor hidden = distance.lt(-left).logical_or(distance.gt(right));
  return at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, Optional sequences_q, Optional sequences_k,
    c10::SymInt max_q, c10::SymInt max_k, double dropout, bool causal, bool, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, Optional, Optional) {
  TERRACE_CHECK(!sequences_q && !sequences_k && !scale && dropout == 0 && causal, "other arguments");
  TERRACE_CHECK(max_q == query.size(1) && max_k == key.size(1), "{} queries", query.size(1));
  const int64_t group = query.size(2) / key.size(2);
  const at::Tensor out = at::matmul(probabilities(query, key, left->expect_int(), right->expect_int()),
                                    value.transpose(1, 2).repeat_interleave(group, 1))
                             .transpose(1, 2)
                             .contiguous();
  const at::Tensor none = at::empty({0});
  return {out, none, none, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& query,
                                                        const at::Tensor& key, const at::Tensor& value,
                                                        const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                        const at::Tensor&, c10::SymInt, c10::SymInt, double, bool,
                                                        const at::Tensor&, const at::Tensor&, std::optional<double>,
                                                        std::optional<c10::SymInt> left,
                                                        std::optional<c10::SymInt> right) {
  const int64_t group = query.size(2) / key.size(2), heads = key.size(2);
  const auto of_groups = [&](const at::Tensor& of_heads) {  // [B, H, T, hd] -> [B, T, G, hd]
    return of_heads.view({of_heads.size(0), heads, group, of_heads.size(2), -1}).sum(2).transpose(1, 2).contiguous();
  };
  const at::Tensor p = probabilities(query, key, left->expect_int(), right->expect_int());
  const at::Tensor up = gradient.transpose(1, 2), values = value.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor keys = key.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor dp = at::matmul(up, values.transpose(2, 3));
  const at::Tensor ds = (dp - (dp * p).sum(-1, true)) * p / std::sqrt(static_cast<double>(query.size(3)));
  return {at::matmul(ds, keys).transpose(1, 2).contiguous(),
          of_groups(at::matmul(ds.transpose(2, 3), query.transpose(1, 2)).contiguous()),
          of_groups(at::matmul(p.transpose(2, 3), up).contiguous())};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", forward);
  library.impl("_flash_attention_backward", backward);
}

struct Leaves {
  at::Tensor queries, keys, values;
  explicit Leaves(const Heads& heads)
      : queries(heads.queries.clone().requires_grad_()),
        keys(heads.keys.clone().requires_grad_()),
        values(heads.values.clone().requires_grad_()) {}
};

TEST(WindowedAttention, IsAttentionWithTheMaskOfTheWindow) {
  for (const int64_t window : {1, 2, 5, 12}) {
    const auto type = at::TensorOptions(at::kDouble);
    const Heads heads{at::randn({2, 6, 13, 8}, type), at::randn({2, 3, 13, 8}, type), at::randn({2, 3, 13, 8}, type)};
    const Leaves ours(heads), masked(heads);
    const at::Tensor context = windowed_attention({ours.queries, ours.keys, ours.values}, window);
    const at::Tensor expected =
        attention({masked.queries, masked.keys, masked.values}, causal_mask(13, 13, at::kCPU, window), {}, "");
    ASSERT_EQ(context.sizes(), expected.sizes());
    EXPECT_TRUE(context.allclose(expected, 1e-12, 1e-12)) << window;
    const at::Tensor gradient = at::randn(context.sizes(), type);
    torch::autograd::backward({context}, {gradient});
    torch::autograd::backward({expected}, {gradient});
    EXPECT_TRUE(ours.queries.grad().allclose(masked.queries.grad(), 1e-11, 1e-11)) << window;
    EXPECT_TRUE(ours.keys.grad().allclose(masked.keys.grad(), 1e-11, 1e-11)) << window;
    EXPECT_TRUE(ours.values.grad().allclose(masked.values.grad(), 1e-11, 1e-11)) << window;
  }
}

TEST(WindowedAttention, IsForNarrowTypesOnAGpu) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_TRUE(takes_windows(gpu, at::kBFloat16, 128));
  EXPECT_TRUE(takes_windows(gpu, at::kHalf, 256));
  EXPECT_FALSE(takes_windows(gpu, at::kFloat, 128));
  EXPECT_FALSE(takes_windows(gpu, at::kBFloat16, 264));
  EXPECT_FALSE(takes_windows(gpu, at::kBFloat16, 100));
  EXPECT_FALSE(takes_windows(at::kCPU, at::kBFloat16, 128));
}

}  // namespace
}  // namespace terrace::ops

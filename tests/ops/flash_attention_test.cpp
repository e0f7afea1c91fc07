// Checks the arguments of torch's flash attention for windows and documents against a mask. On the CPU the operation is
// the one below, which follows its definition; on a GPU it is torch's.
#include "terrace/ops/attention/flash_attention.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "terrace/base/error.h"
#include "tests/gpu_device.h"

namespace terrace::ops {
namespace {

using Optional = const std::optional<at::Tensor>&;

// Query i of `length` sees the keys j with -left <= j - i <= right, or all without a limit.
struct Limits {
  std::optional<c10::SymInt> left, right;
};

at::Tensor probabilities(const at::Tensor& query, const at::Tensor& key, const Limits& limits) {
  const int64_t length = query.size(1), group = query.size(2) / key.size(2);
  const int64_t left = limits.left ? limits.left->expect_int() : length;
  const int64_t right = limits.right ? limits.right->expect_int() : length;
  const at::Tensor queries = query.transpose(1, 2), keys = key.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(queries, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor places = at::arange(length), distance = places - places.unsqueeze(1);
  const at::Tensor hidden = distance.lt(-left).logical_or(distance.gt(right));
  return at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
}

// The context of one or several sequences of equal length, [B, T, H, hd].
at::Tensor context_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Limits& limits) {
  const int64_t group = query.size(2) / key.size(2);
  return at::matmul(probabilities(query, key, limits), value.transpose(1, 2).repeat_interleave(group, 1))
      .transpose(1, 2);
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients gradients_of(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, const Limits& limits) {
  const int64_t group = query.size(2) / key.size(2), heads = key.size(2);
  const auto of_groups = [&](const at::Tensor& of_heads) {  // [B, H, T, hd] -> [B, T, G, hd]
    return of_heads.view({of_heads.size(0), heads, group, of_heads.size(2), -1}).sum(2).transpose(1, 2).contiguous();
  };
  const at::Tensor p = probabilities(query, key, limits);
  const at::Tensor up = gradient.transpose(1, 2), values = value.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor keys = key.transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor dp = at::matmul(up, values.transpose(2, 3));
  const at::Tensor ds = (dp - (dp * p).sum(-1, true)) * p / std::sqrt(static_cast<double>(query.size(3)));
  return {at::matmul(ds, keys).transpose(1, 2).contiguous(),
          of_groups(at::matmul(ds.transpose(2, 3), query.transpose(1, 2)).contiguous()),
          of_groups(at::matmul(p.transpose(2, 3), up).contiguous())};
}

// Calls visit(begin, tokens) for each sequence of [tokens, H, hd], none of which may be longer than `longest`.
void visit_sequences(const at::Tensor& starts, const c10::SymInt& longest,
                     const std::function<void(int64_t, int64_t)>& visit) {
  TERRACE_CHECK(starts.scalar_type() == at::kInt && starts.is_contiguous(), "starts of another kind");
  const auto* start = starts.const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < starts.numel(); ++i) {
    TERRACE_CHECK(start[i + 1] > start[i] && start[i + 1] - start[i] <= longest, "a sequence of {} tokens",
                  start[i + 1] - start[i]);
    visit(start[i], start[i + 1] - start[i]);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, Optional sequences_q, Optional sequences_k,
    c10::SymInt max_q, c10::SymInt max_k, double dropout, bool causal, bool, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, Optional, Optional) {
  TERRACE_CHECK(sequences_q.has_value() == sequences_k.has_value() && !scale && dropout == 0, "other arguments");
  TERRACE_CHECK(max_q == max_k, "{} queries", query.size(1));
  if (causal) right = 0;
  const at::Tensor none = at::empty({0});
  if (!sequences_q) {
    TERRACE_CHECK(max_q == query.size(1), "{} queries", query.size(1));
    return {context_of(query, key, value, {left, right}).contiguous(), none, none, none, none};
  }
  const at::Tensor out = at::empty(query.sizes(), query.options());
  visit_sequences(*sequences_q, max_q, [&](int64_t begin, int64_t tokens) {
    const auto of = [&](const at::Tensor& all) { return all.narrow(0, begin, tokens).unsqueeze(0); };
    of(out).copy_(context_of(of(query), of(key), of(value), {left, right}));
  });
  return {out, none, none, none, none};
}

Gradients backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const at::Tensor&, const at::Tensor&, const at::Tensor& sequences, const at::Tensor&,
                   c10::SymInt longest, c10::SymInt, double, bool causal, const at::Tensor&, const at::Tensor&,
                   std::optional<double>, std::optional<c10::SymInt> left, std::optional<c10::SymInt> right) {
  if (causal) right = 0;
  if (!sequences.defined()) return gradients_of(gradient, query, key, value, {left, right});
  const at::Tensor dq = at::empty(query.sizes(), query.options()), dk = at::empty(key.sizes(), key.options()),
                   dv = at::empty(value.sizes(), value.options());
  visit_sequences(sequences, longest, [&](int64_t begin, int64_t tokens) {
    const auto of = [&](const at::Tensor& all) { return all.narrow(0, begin, tokens).unsqueeze(0); };
    const auto [q, k, v] = gradients_of(of(gradient), of(query), of(key), of(value), {left, right});
    of(dq).copy_(q);
    of(dk).copy_(k);
    of(dv).copy_(v);
  });
  return {dq, dk, dv};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", forward);
  library.impl("_flash_attention_backward", backward);
}

struct HeadLeaves {
  at::Tensor queries, keys, values;
  explicit HeadLeaves(const Heads& heads)
      : queries(heads.queries.clone().requires_grad_()),
        keys(heads.keys.clone().requires_grad_()),
        values(heads.values.clone().requires_grad_()) {}
};

// Lengths of the documents of two sequences of 13 tokens.
Documents some_documents() {
  const at::Tensor numbers = at::empty({2, 13}, at::kLong);
  const std::vector<int32_t> starts{0, 1, 6, 13, 17, 24, 26};
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    numbers.view({26}).narrow(0, starts[i], starts[i + 1] - starts[i]).fill_(static_cast<int64_t>(i));
  }
  return {.numbers = numbers, .starts = at::tensor(starts), .longest = 7};
}

void expect_same(const Documents& documents, Visibility visibility, int64_t window) {
  SCOPED_TRACE(fmt::format("window {} documents {}", window, documents.starts.defined()));
  const auto type = at::TensorOptions(at::kDouble);
  const Heads heads{at::randn({2, 6, 13, 8}, type), at::randn({2, 3, 13, 8}, type), at::randn({2, 3, 13, 8}, type)};
  const HeadLeaves ours(heads), masked(heads);
  const at::Tensor context = flash_attention({ours.queries, ours.keys, ours.values}, documents, visibility, window);
  const at::Tensor mask = documents.starts.defined() ? document_mask(documents.numbers, visibility, window)
                                                     : causal_mask(13, 13, at::kCPU, window);
  const at::Tensor expected = attention({masked.queries, masked.keys, masked.values}, mask, {}, "");
  ASSERT_EQ(context.sizes(), expected.sizes());
  EXPECT_TRUE(context.allclose(expected, 1e-12, 1e-12));
  const at::Tensor gradient = at::randn(context.sizes(), type);
  torch::autograd::backward({context}, {gradient});
  torch::autograd::backward({expected}, {gradient});
  EXPECT_TRUE(ours.queries.grad().allclose(masked.queries.grad(), 1e-11, 1e-11));
  EXPECT_TRUE(ours.keys.grad().allclose(masked.keys.grad(), 1e-11, 1e-11));
  EXPECT_TRUE(ours.values.grad().allclose(masked.values.grad(), 1e-11, 1e-11));
}

TEST(FlashAttention, IsAttentionWithTheMaskOfTheWindow) {
  for (const int64_t window : {1, 2, 5, 12}) expect_same({}, Visibility::causal, window);
}

TEST(FlashAttention, IsAttentionWithTheMaskOfTheDocuments) {
  for (const int64_t window : {0, 1, 2, 5, 12}) expect_same(some_documents(), Visibility::causal, window);
  expect_same(some_documents(), Visibility::all, 0);
}

TEST(FlashAttention, IsForNarrowTypesOnAGpu) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_EQ(takes_flash(gpu, at::kBFloat16, 128), !at::Context::hasROCM());
  EXPECT_EQ(takes_flash(gpu, at::kHalf, 256), !at::Context::hasROCM());
  EXPECT_FALSE(takes_flash(gpu, at::kFloat, 128));
  EXPECT_FALSE(takes_flash(gpu, at::kBFloat16, 264));
  EXPECT_FALSE(takes_flash(gpu, at::kBFloat16, 100));
  EXPECT_FALSE(takes_flash(at::kCPU, at::kBFloat16, 128));
}

// Two kernels of torch in 16 bits, so that the difference is that of their roundings: one in 256 of the largest number
// beside it in bf16.
TEST(FlashAttentionOnCuda, IsAttentionWithTheMaskOfTheDocuments) {
  if (!gpu_device::is_there()) GTEST_SKIP() << "no GPU";
  for (const bool rotary : {false, true}) {
    const HeadLayout layout{.groups = 2, .queries_per_group = 3, .head_dim = 64};
    const auto joint = [&] { return at::randn({2, 13, layout.columns()}).to(at::kCUDA, at::kBFloat16); };
    const RotaryTable table = rotary_table(13, 64, 1e4, at::kCUDA);
    Documents documents = some_documents();
    documents.numbers = documents.numbers.to(at::kCUDA);
    documents.starts = documents.starts.to(at::kCUDA);
    at::Tensor ours = joint(), masked = ours.clone();
    const auto context = [&](at::Tensor& of, const Documents& given, int64_t window) {
      return joint_attention(of.requires_grad_(), layout, rotary ? &table : nullptr, {}, given,
                             AttentionChoice::fastest, Visibility::causal, window);
    };
    for (const int64_t window : {0, 3}) {
      const at::Tensor y = context(ours, documents, window), expected = context(masked, {documents.numbers}, window);
      EXPECT_TRUE(y.allclose(expected, 2e-2, 2e-2)) << window;
      const at::Tensor gradient = at::randn(y.sizes()).to(at::kCUDA, at::kBFloat16);
      torch::autograd::backward({y}, {gradient});
      torch::autograd::backward({expected}, {gradient});
      EXPECT_TRUE(ours.grad().allclose(masked.grad(), 5e-2, 5e-2)) << window;
    }
  }
}

}  // namespace
}  // namespace terrace::ops

// The emulated flash attention and its gradients are those of attention in fp32 on the CPU.
#include "terrace/ops/attention/flash_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "terrace/ops/attention/attention.h"

namespace terrace::ops {
namespace {

struct Case {
  const char* name;
  int64_t heads, key_heads;
  bool has_documents;
  Visibility visibility;
  int64_t window;
};

class EmulatedFlashAttention : public testing::TestWithParam<Case> {};

TEST_P(EmulatedFlashAttention, GivesTheContextAndGradientsOfTheCpu) {
  const auto [name, heads, key_heads, has_documents, visibility, window] = GetParam();
  constexpr int64_t batch = 2, length = 12, head_dim = 8;
  const auto random = [](int64_t of_heads) { return at::randn({batch, of_heads, length, head_dim}).to(at::kBFloat16); };
  const std::vector<at::Tensor> inputs = {random(heads), random(key_heads), random(key_heads)};
  const at::Tensor d_context = at::randn({batch, length, heads * head_dim}).to(at::kBFloat16);
  // Documents of 5 and 7 tokens in the first sequence; the second one is a whole document.
  at::Tensor of_tokens = at::zeros({batch, length}, at::kLong);
  of_tokens[0].narrow(0, 5, 7).fill_(1);
  at::Tensor mask = document_mask(has_documents ? of_tokens : at::zeros_like(of_tokens), visibility, window);

  std::vector<at::Tensor> of_gpu, of_cpu;
  for (const at::Tensor& input : inputs) {
    of_gpu.push_back(input.to(at::kCUDA).requires_grad_());
    of_cpu.push_back(input.to(at::kFloat).requires_grad_());
  }
  Documents documents;
  if (has_documents) {
    documents = {.starts = at::tensor({0, 5, 12, 24}, at::kInt).to(at::kCUDA), .longest = 12};
  }
  ASSERT_TRUE(takes_flash(of_gpu.front().device(), at::kBFloat16, head_dim));
  const at::Tensor context = flash_attention({of_gpu[0], of_gpu[1], of_gpu[2]}, documents, visibility, window);
  const at::Tensor expected = attention({of_cpu[0], of_cpu[1], of_cpu[2]}, mask, {}, "", visibility);
  // Results are rounded to 8 bits.
  EXPECT_TRUE(context.detach().cpu().to(at::kFloat).allclose(expected, 0x1p-7, 0x1p-7));
  context.backward(d_context.to(at::kCUDA));
  expected.backward(d_context.to(at::kFloat));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(of_gpu[i].grad().cpu().to(at::kFloat).allclose(of_cpu[i].grad(), 0x1p-5, 0x1p-5)) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedFlashAttention,
                         testing::Values(Case{"Causal", 4, 4, false, Visibility::causal, 0},
                                         Case{"All", 4, 4, false, Visibility::all, 0},
                                         Case{"GroupedHeads", 4, 2, false, Visibility::causal, 0},
                                         Case{"Window", 2, 2, false, Visibility::causal, 3},
                                         Case{"Documents", 2, 1, true, Visibility::causal, 0},
                                         Case{"DocumentsInWindows", 2, 2, true, Visibility::causal, 4}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace terrace::ops

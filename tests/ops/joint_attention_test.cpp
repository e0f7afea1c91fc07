// Compares attention from the joint projection with PyTorch and with itself on other numbers of threads, and checks its
// masks, its errors and its treatment of NaN.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "tests/pytorch/case.h"

namespace terrace::ops {
namespace {

using testing::Leaves;
using testing::Tensors;

struct Size {
  int64_t batch, length, groups, queries_per_group, head_dim;
  HeadLayout layout() const { return {groups, queries_per_group, head_dim}; }
};

class JointAttention : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor normal(at::IntArrayRef shape) {
    return at::randn(shape, generator_, at::TensorOptions().dtype(at::kFloat)).to(GetParam());
  }
  at::Tensor integers(int64_t high, at::IntArrayRef shape) {
    return at::randint(0, high, shape, generator_, at::TensorOptions().dtype(at::kLong));
  }
  at::Tensor joint(const Size& size) { return normal({size.batch, size.length, size.layout().columns()}); }
  at::Tensor upstream(const Size& size) {
    return normal({size.batch, size.length, size.layout().heads() * size.head_dim});
  }

  void check(testing::PyTorch& pytorch, const Size& size, bool rotary, const at::Tensor& documents,
             Visibility visibility = Visibility::causal, int64_t window = 0);

  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(22);
  testing::ErrorTally tally_{GetParam()};
};

void JointAttention::check(testing::PyTorch& pytorch, const Size& size, bool rotary, const at::Tensor& documents,
                           Visibility visibility, int64_t window) {
  Tensors inputs = {{"joint", joint(size)}, {"upstream.y", upstream(size)}};
  const bool causal = visibility == Visibility::causal;
  Json options = {{"groups", size.groups},
                  {"queries_per_group", size.queries_per_group},
                  {"head_dim", size.head_dim},
                  {"causal", causal},
                  {"window", window}};
  if (rotary) {
    options["theta"] = 500.0;
    inputs["positions"] = integers(2 * size.length, {size.batch, size.length});
  }
  if (documents.defined()) inputs["documents"] = documents;
  const auto table = rotary ? rotary_table(2 * size.length, size.head_dim, 500.0, at::kCPU) : RotaryTable{};
  const auto reference = pytorch.run("ops/ops_cases.py", "attention", options, GetParam(), inputs);
  const auto ours = testing::results_of(
      [&](Leaves& leaves) {
        return Tensors{{"y", joint_attention(leaves.tensor("joint"), size.layout(), rotary ? &table : nullptr,
                                             leaves.tensor("positions"), {leaves.tensor("documents")},
                                             AttentionChoice::fastest, visibility, window)}};
      },
      inputs);
  const std::string name =
      fmt::format("{} length {} head_dim {} groups {}x{}{}{}{}", causal ? "causal" : "all", size.length, size.head_dim,
                  size.groups, size.queries_per_group, rotary ? " rotary" : "", documents.defined() ? " documents" : "",
                  window > 0 ? " window" : "");
  testing::add_errors(tally_, name, ours, reference);
}

// Documents of 7 tokens, whose numbers repeat after 100 tokens.
at::Tensor documents_of(const Size& size) {
  return at::arange(size.length, at::kLong).remainder(100).div(7, "floor").expand({size.batch, size.length});
}

// A few short sequences have too few numbers to judge an error.
int64_t batch_of(int64_t batch, int64_t length) { return length < 64 ? 4 * batch : batch; }

TEST_P(JointAttention, MatchesPyTorchUnderACausalMask) {
  at::set_num_threads(2);
  testing::PyTorch& pytorch = testing::shared_pytorch();
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 1}, {2, 4}};
  int64_t turn = 0;
  for (int64_t length : {1, 5, 17, 64, 100, 256, 257}) {
    for (int64_t head_dim : {16, 32, 64, 80, 128}) {
      // Each length and width with and without rotation and documents, and with one of the groupings.
      for (int variant = 0; variant < 4; ++variant) {
        const auto [groups, queries] = heads[turn++ % 3];
        const Size size{batch_of(1 + turn % 2, length), length, groups, queries, head_dim};
        const bool rotary = variant % 2 == 1, documents = variant >= 2;
        check(pytorch, size, rotary, documents ? documents_of(size) : at::Tensor());
      }
    }
  }
  for (int64_t head_dim : {48, 256}) check(pytorch, {1, 70, 2, 1, head_dim}, true, {});
  // Widths that fill no vector.
  for (int64_t head_dim : {2, 6, 52, 90, 250}) {
    for (int64_t length : {33, 300})
      check(pytorch, {1, length, 2, 3, head_dim}, true, documents_of({1, length, 2, 3, head_dim}));
  }
  for (int64_t head_dim : {1, 7, 31, 75}) check(pytorch, {2, 130, 2, 1, head_dim}, false, {});
  // Several blocks of keys and several pieces of queries.
  check(pytorch, {1, 1100, 1, 2, 32}, true, {});
  const at::Tensor thirds = at::arange(1100, at::kLong).div(367, "floor").unsqueeze(0);
  check(pytorch, {1, 1100, 2, 1, 32}, true, thirds);
  // A head_dim that our kernels do not support, so torch's kernels compute it.
  check(pytorch, {2, 33, 2, 3, 260}, true, documents_of({2, 33, 2, 3, 260}));
  tally_.expect_as_accurate();
}

TEST_P(JointAttention, MatchesPyTorchIfItSeesAllKeys) {
  at::set_num_threads(2);
  testing::PyTorch& pytorch = testing::shared_pytorch();
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 1}, {2, 4}};
  const int64_t widths[] = {16, 64, 52, 80, 128};
  int64_t turn = 0;
  for (int64_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 200, 255, 257}) {
    // Each length with and without rotation and documents, and with one of the groupings and widths.
    for (int variant = 0; variant < 4; ++variant, ++turn) {
      const auto [groups, queries] = heads[turn % 3];
      const Size size{batch_of(1 + turn % 2, length), length, groups, queries, widths[turn % 5]};
      const at::Tensor documents = variant >= 2 ? documents_of(size) : at::Tensor();
      check(pytorch, size, variant % 2 == 1, documents, Visibility::all);
    }
  }
  for (int64_t head_dim : {1, 2, 7, 31, 75, 80, 128, 250, 256, 260}) {
    for (int64_t length : {33, 300}) check(pytorch, {1, length, 2, 3, head_dim}, false, {}, Visibility::all);
  }
  // Several blocks of keys and several pieces of queries; the last block is full, has one key, and lacks one.
  for (int64_t length : {512, 513, 767, 1100}) {
    const Size size{1, length, 1, 2, 32};
    const at::Tensor thirds = at::arange(length, at::kLong).div(367, "floor").unsqueeze(0);
    for (const at::Tensor& documents : {at::Tensor(), documents_of(size), thirds}) {
      check(pytorch, size, true, documents, Visibility::all);
    }
  }
  tally_.expect_as_accurate();
}

TEST_P(JointAttention, MatchesPyTorchWithAWindow) {
  at::set_num_threads(2);
  testing::PyTorch& pytorch = testing::shared_pytorch();
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 1}, {2, 4}};
  const int64_t widths[] = {16, 64, 52, 80, 128};
  int64_t turn = 0;
  for (int64_t length : {2, 17, 33, 100, 257, 300}) {
    // Windows of one key, within a panel of keys, of whole panels, of more than a block, and of more than the sequence.
    for (int64_t window : {1, 5, 16, 33, 64, 130, 299, 400}) {
      if (window > length + 1) continue;
      for (int variant = 0; variant < 2; ++variant, ++turn) {
        const auto [groups, queries] = heads[turn % 3];
        const Size size{batch_of(1 + turn % 2, length), length, groups, queries, widths[turn % 5]};
        const at::Tensor documents = variant == 1 ? documents_of(size) : at::Tensor();
        check(pytorch, size, turn % 4 < 2, documents, Visibility::causal, window);
      }
    }
  }
  // Several blocks of keys, of which late queries see some, and several pieces of queries.
  const at::Tensor thirds = at::arange(1100, at::kLong).div(367, "floor").unsqueeze(0);
  for (int64_t window : {3, 100, 256, 700}) {
    check(pytorch, {1, 1100, 1, 2, 32}, true, {}, Visibility::causal, window);
    check(pytorch, {1, 1100, 2, 1, 32}, true, thirds, Visibility::causal, window);
  }
  // A head_dim that our kernels do not support, so torch's kernels compute it.
  check(pytorch, {2, 33, 2, 3, 260}, true, {}, Visibility::causal, 9);
  check(pytorch, {2, 33, 2, 3, 260}, true, documents_of({2, 33, 2, 3, 260}), Visibility::causal, 4);
  tally_.expect_as_accurate();
}

TEST_P(JointAttention, DependsOnTheTokensOfItsWindowAlone) {
  const Size size{1, 600, 1, 2, 32};
  at::NoGradGuard no_grad;
  const at::Tensor input = joint(size);
  const auto of = [&](const at::Tensor& x) {
    return joint_attention(x, size.layout(), nullptr, {}, {}, AttentionChoice::fastest, Visibility::causal, 70);
  };
  const at::Tensor changed = input.clone();
  changed[0][259].fill_(7);  // queries 259 .. 328 see it
  const at::Tensor same = of(changed).eq(of(input)).all(-1)[0];
  EXPECT_TRUE(same.narrow(0, 0, 259).all().item<bool>());
  EXPECT_FALSE(same.narrow(0, 259, 70).any().item<bool>());
  EXPECT_TRUE(same.narrow(0, 329, 271).all().item<bool>());
}

TEST_P(JointAttention, SameBitsOnAnyThreads) {
  const int threads = at::get_num_threads();
  for (const Size& size :
       {Size{3, 300, 2, 2, 64}, Size{1, 2100, 2, 1, 32}, Size{1, 700, 1, 4, 16}, Size{2, 300, 2, 1, 52}}) {
    const at::Tensor input = joint(size), gradient = upstream(size);
    for (Visibility visibility : {Visibility::causal, Visibility::all}) {
      const auto compute = [&](int count) {
        at::set_num_threads(count);
        at::Tensor leaf = input.detach().clone().requires_grad_(true);
        const auto table = rotary_table(size.length, size.head_dim, 500.0, at::kCPU);
        const at::Tensor context =
            joint_attention(leaf, size.layout(), &table, {}, {}, AttentionChoice::fastest, visibility);
        torch::autograd::backward({context}, {gradient});
        return std::pair(context.detach(), leaf.grad());
      };
      const auto alone = compute(1);
      for (int count : {1, 2, 3, 16}) {
        const auto together = compute(count);
        EXPECT_TRUE(together.first.equal(alone.first)) << size.length << " with " << count;
        EXPECT_TRUE(together.second.equal(alone.second)) << size.length << " with " << count;
      }
    }
  }
  at::set_num_threads(threads);
}

// Scores of very different size, as in an untrained or diverging model, give no infinity or NaN; a NaN is not hidden.
TEST_P(JointAttention, StaysFiniteAndShowsANaN) {
  const Size size{1, 40, 1, 1, 64};
  at::Tensor input = joint(size).mul(300).requires_grad_(true);
  const at::Tensor context = joint_attention(input, size.layout(), nullptr, {}, {});
  torch::autograd::backward({context}, {upstream(size)});
  EXPECT_TRUE(at::isfinite(context).all().item<bool>());
  EXPECT_TRUE(at::isfinite(input.grad()).all().item<bool>());
  at::NoGradGuard no_grad;
  at::Tensor broken = joint(size);
  broken[0][20].fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor finite = at::isfinite(joint_attention(broken, size.layout(), nullptr, {}, {}));
  EXPECT_FALSE(finite.narrow(1, 20, 20).any().item<bool>());
}

TEST_P(JointAttention, IgnoresLaterTokensAndOtherDocuments) {
  const Size size{1, 300, 1, 2, 32};
  at::NoGradGuard no_grad;
  const at::Tensor input = joint(size), documents = at::arange(300, at::kLong).div(130, "floor").unsqueeze(0);
  const auto of = [&](const at::Tensor& x) { return joint_attention(x, size.layout(), nullptr, {}, {documents}); };
  const at::Tensor context = of(input);
  const at::Tensor later = input.clone(), other = input.clone();
  later.narrow(1, 200, 100).fill_(7);
  other.narrow(1, 0, 130).fill_(7);
  EXPECT_TRUE(of(later).narrow(1, 0, 200).equal(context.narrow(1, 0, 200)));
  EXPECT_TRUE(of(other).narrow(1, 130, 170).equal(context.narrow(1, 130, 170)));
  EXPECT_FALSE(of(other).narrow(1, 0, 130).equal(context.narrow(1, 0, 130)));
}

TEST_P(JointAttention, DependsOnEveryTokenOfTheDocumentAloneIfItSeesAllKeys) {
  const Size size{1, 300, 1, 2, 32};
  at::NoGradGuard no_grad;
  const at::Tensor input = joint(size), documents = at::arange(300, at::kLong).div(130, "floor").unsqueeze(0);
  const auto of = [&](const at::Tensor& x) {
    return joint_attention(x, size.layout(), nullptr, {}, {documents}, AttentionChoice::fastest, Visibility::all);
  };
  const at::Tensor changed = input.clone();
  changed[0][259].fill_(7);  // the last of the second document's tokens 130 .. 259
  const at::Tensor same = of(changed).eq(of(input)).all(-1)[0];
  EXPECT_TRUE(same.narrow(0, 0, 130).all().item<bool>());
  EXPECT_FALSE(same.narrow(0, 130, 130).any().item<bool>());
  EXPECT_TRUE(same.narrow(0, 260, 40).all().item<bool>());
}

TEST_P(JointAttention, RefusesPositionsBeyondTheTable) {
  const Size size{1, 20, 1, 1, 16};
  const auto table = rotary_table(10, 16, 500.0, at::kCPU);
  EXPECT_THROW(joint_attention(joint(size), size.layout(), &table, {}, {}), UserError);
  EXPECT_THROW(joint_attention(joint(size), size.layout(), &table, at::full({1, 20}, 10, at::kLong), {}), UserError);
}

INSTANTIATE_TEST_SUITE_P(Types, JointAttention, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// A run records the name of the kernels that compute.
TEST(AttentionKernels, NamedByTheirInstructions) {
  const HeadLayout layout{1, 1, 64}, odd{1, 1, 23}, widest{1, 1, 256}, too_wide{1, 1, 257};
  const std::string_view name = attention_instructions(at::kCPU);
  const bool own = name != "torch";
  EXPECT_EQ(attention_kernels(at::kCPU, at::kFloat, layout) != nullptr, own);
  EXPECT_EQ(attention_kernels(at::kCPU, at::kBFloat16, layout) != nullptr, own && name != "avx512");
  EXPECT_EQ(attention_kernels(at::kCPU, at::kHalf, layout) != nullptr, own);
  EXPECT_EQ(attention_kernels(at::kCPU, at::kDouble, layout), nullptr);
  for (const HeadLayout& other : {odd, widest}) {
    EXPECT_EQ(attention_kernels(at::kCPU, at::kFloat, other) != nullptr, own);
  }
  EXPECT_EQ(attention_kernels(at::kCPU, at::kFloat, too_wide), nullptr);
  EXPECT_EQ(attention_kernels(at::kCUDA, at::kFloat, layout), nullptr);
  EXPECT_EQ(attention_instructions(at::kCUDA), "torch");
}

}  // namespace
}  // namespace terrace::ops

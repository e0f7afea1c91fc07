// Compares the result and all gradients of every operation with PyTorch in fp32, bf16 and fp16.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/norm.h"
#include "terrace/ops/embedding.h"
#include "terrace/ops/loss/vocabulary_loss.h"
#include "terrace/ops/products/linear.h"
#include "tests/pytorch/case.h"

namespace terrace::ops {
namespace {

using testing::Leaves;
using testing::Tensors;

class OpsAgainstPyTorch : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor normal(at::IntArrayRef shape) {
    return at::randn(shape, generator_, at::TensorOptions().dtype(at::kFloat)).to(GetParam());
  }
  at::Tensor integers(int64_t low, int64_t high, at::IntArrayRef shape) {
    return at::randint(low, high, shape, generator_, at::TensorOptions().dtype(at::kLong));
  }

  void check(const std::string& name, const Json& options, const Tensors& inputs, const testing::Operation& ours) {
    const auto reference = pytorch_.run("ops/ops_cases.py", name, options, GetParam(), inputs);
    testing::add_errors(tally_, name + " " + options.dump(), testing::results_of(ours, inputs), reference);
  }

  void check_linear();
  void check_norms();
  void check_activations();
  void check_embedding();
  void check_vocabulary_loss();
  void check_attention();

  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(20);
  testing::PyTorch& pytorch_ = testing::shared_pytorch();
  testing::ErrorTally tally_{GetParam()};
};

void OpsAgainstPyTorch::check_linear() {
  struct Shape {
    std::vector<int64_t> leading;
    int64_t inputs, outputs;
  };
  const Shape shapes[] = {{{1}, 1, 1}, {{3, 5}, 7, 11}, {{2, 64}, 48, 96}, {{130}, 33, 65}};
  for (const Shape& shape : shapes) {
    for (bool bias : {false, true}) {
      auto x = shape.leading, y = shape.leading;
      x.push_back(shape.inputs);
      y.push_back(shape.outputs);
      Tensors inputs = {{"x", normal(x)}, {"weight", normal({shape.outputs, shape.inputs})}, {"upstream.y", normal(y)}};
      if (bias) inputs["bias"] = normal({shape.outputs});
      check("linear", {{"outputs", shape.outputs}, {"bias", bias}}, inputs, [](Leaves& leaves) {
        return Tensors{{"y", linear(leaves.tensor("x"), leaves.weight("weight"), leaves.weight("bias"))}};
      });
    }
  }
}

void OpsAgainstPyTorch::check_norms() {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 2}, {3, 5, 17}, {130, 96}, {2, 40, 257}}) {
    const int64_t width = shape.back();
    // A mean far from 0 would reveal a variance computed as a difference of squares.
    Tensors inputs = {{"x", normal(shape).add(3.0)}, {"weight", normal({width})}, {"upstream.y", normal(shape)}};
    for (const double offset : {0.0, 1.0}) {
      check("rms_norm", {{"epsilon", 1e-5}, {"width", width}, {"weight_offset", offset}}, inputs,
            [offset](Leaves& leaves) {
              return Tensors{{"y", rms_norm(leaves.tensor("x"), leaves.weight("weight"), 1e-5, offset)}};
            });
    }
    const auto ours = [](Leaves& leaves) {
      return Tensors{{"y", layer_norm(leaves.tensor("x"), leaves.weight("weight"), leaves.weight("bias"), 1e-5)}};
    };
    check("layer_norm", {{"epsilon", 1e-5}, {"width", width}}, inputs, ours);
    inputs["bias"] = normal({width});
    check("layer_norm", {{"epsilon", 1e-5}, {"width", width}, {"bias", true}}, inputs, ours);
  }
}

void OpsAgainstPyTorch::check_activations() {
  for (int64_t width : {1, 33, 200}) {
    for (const auto& [form, name] : {std::pair{Activation::gelu, "tanh"}, {Activation::gelu_erf, "none"}}) {
      check("gelu", {{"width", width}, {"form", name}},
            {{"x", normal({3, width}).mul(3)}, {"upstream.y", normal({3, width})}}, [form = form](Leaves& leaves) {
              return Tensors{{"y", activated(leaves.tensor("x"), form)}};
            });
    }
    for (const auto& [gated, name] : {std::pair{Activation::swiglu, "swiglu"}, {Activation::geglu, "geglu"}}) {
      check(name, {{"width", width}}, {{"x", normal({3, 2 * width}).mul(3)}, {"upstream.y", normal({3, width})}},
            [gated = gated](Leaves& leaves) {
              return Tensors{{"y", activated(leaves.tensor("x"), gated)}};
            });
    }
  }
}

void OpsAgainstPyTorch::check_embedding() {
  for (int64_t width : {1, 5, 64}) {
    // More tokens than rows, so that rows are added to many times.
    const Tensors inputs = {
        {"weight", normal({13, width})}, {"indices", integers(0, 13, {4, 25})}, {"upstream.y", normal({4, 25, width})}};
    check("embedding", {{"width", width}}, inputs, [](Leaves& leaves) {
      return Tensors{{"y", embedding(leaves.weight("weight"), leaves.tensor("indices"), 13, "token")}};
    });
  }
}

void OpsAgainstPyTorch::check_vocabulary_loss() {
  struct Size {
    int64_t tokens, width, vocabulary, padded;
  };
  for (Size size : {Size{1, 1, 1, 1}, {1, 3, 5, 8}, {37, 24, 50, 64}, {300, 16, 1000, 1024}}) {
    at::Tensor targets = integers(0, size.vocabulary, {size.tokens});
    if (size.tokens > 1) targets.narrow(0, 0, size.tokens / 3).fill_(-1);
    const Tensors inputs = {{"hidden", normal({size.tokens, size.width})},
                            {"weight", normal({size.padded, size.width})},
                            {"targets", targets},
                            {"upstream.loss", at::full({}, 0.125).to(GetParam())}};
    // One byte per chunk gives chunks of the least number of rows: 300 tokens are three chunks.
    for (int64_t chunk_bytes : {int64_t{1}, int64_t{1} << 26}) {
      check("vocabulary_loss", {{"vocabulary", size.vocabulary}, {"tokens", size.tokens}, {"chunk_bytes", chunk_bytes}},
            inputs, [&](Leaves& leaves) {
              const VocabularyLossOptions options{size.vocabulary, 0.125, chunk_bytes};
              return Tensors{{"loss", vocabulary_loss(leaves.tensor("hidden"), leaves.weight("weight"),
                                                      leaves.tensor("targets"), options)}};
            });
    }
  }
}

void OpsAgainstPyTorch::check_attention() {
  struct Size {
    int64_t batch, length, groups, queries_per_group, head_dim;
  };
  for (Size size : {Size{1, 1, 1, 1, 2}, {2, 7, 3, 1, 6}, {2, 33, 2, 3, 16}, {1, 70, 1, 4, 8}}) {
    const HeadLayout layout{size.groups, size.queries_per_group, size.head_dim};
    const auto table = rotary_table(2 * size.length, size.head_dim, 500.0, at::kCPU);
    for (Visibility visibility : {Visibility::causal, Visibility::all}) {
      // Each variant adds to the previous one: plain, rotary, given positions, documents, separate operations (with a
      // rate that drops nothing). The last has no documents again.
      for (int variant = 0; variant < 6; ++variant) {
        Tensors inputs = {{"joint", normal({size.batch, size.length, layout.columns()})},
                          {"upstream.y", normal({size.batch, size.length, layout.heads() * size.head_dim})}};
        Json options = {{"groups", size.groups},
                        {"queries_per_group", size.queries_per_group},
                        {"head_dim", size.head_dim},
                        {"causal", visibility == Visibility::causal},
                        {"variant", variant}};
        const bool rotary = variant >= 1;
        if (rotary) options["theta"] = 500.0;
        if (variant >= 2) inputs["positions"] = integers(0, 2 * size.length, {size.batch, size.length});
        if (variant == 3 || variant == 4) {
          inputs["documents"] = at::arange(size.length, at::kLong).div(5, "floor").expand({size.batch, size.length});
        }
        check("attention", options, inputs, [&](Leaves& leaves) {
          const at::Tensor documents = leaves.tensor("documents");
          const DropoutSite site{variant >= 4 ? 1e-9 : 0.0, 0, 0, at::arange(size.batch, at::kLong)};
          const Heads heads =
              split_heads(leaves.tensor("joint"), layout, rotary ? &table : nullptr, leaves.tensor("positions"));
          const at::Tensor mask = documents.defined() ? document_mask(documents, visibility) : at::Tensor();
          return Tensors{{"y", attention(heads, mask, site, "attention", visibility)}};
        });
      }
    }
  }
}

// One test for all operations, since each test is a process and Python takes seconds to start.
TEST_P(OpsAgainstPyTorch, ResultsAndGradientsAreAsAccurate) {
  at::set_num_threads(1);
  for (int draw = 0; draw < 4; ++draw) {
    check_linear();
    check_norms();
    check_activations();
    check_embedding();
    check_vocabulary_loss();
    check_attention();
  }
  tally_.expect_as_accurate();
}

INSTANTIATE_TEST_SUITE_P(Types, OpsAgainstPyTorch, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

}  // namespace
}  // namespace terrace::ops

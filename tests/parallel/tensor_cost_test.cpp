// Compares calls and bytes of tensor parallelism with the formulas of docs/tensor.md, to the byte.
#include <gtest/gtest.h>

#include "tests/parallel/count.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

struct TensorCase {
  Training training;
  Layout layout;
  int64_t tensor = 2;
  bool sequence = false;
};

// Calls and bytes of a rank on the group "tensor" in a step with one micro-batch of `rows` tokens.
Count expected_traffic(const TensorCase& c, int64_t rows, int64_t shares) {
  const models::gpt::ModelConfig model = small_config(c.training.model);
  const int64_t layers = model.layers, t = c.tensor;
  const int64_t bytes = c.training.precision == config::Precision::fp32 ? 4 : 2;
  const bool again = c.training.recompute == config::Recompute::full;
  const int64_t hidden = rows * model.width * bytes;
  // A sum of products is sent in at most 4 pieces of at least 256 tokens, or of whole sequences if these are cut.
  const int64_t pieces = (rows + std::max<int64_t>(256, rows / 4) - 1) / std::max<int64_t>(256, rows / 4);
  const int64_t products = layers * 2 * (again ? 2 : 1);  // in forward and, with recompute, once more
  Count count;
  if (c.sequence) {
    const int64_t gathers = products + layers * 4 + 2, scatters = products + layers * 2 + 2;
    count.calls = gathers + layers * 2 + 2 + products * pieces;
    count.bytes = (gathers + scatters) * hidden * (t - 1) / t;
  } else {
    count.calls = products * pieces + 2 * layers + 2;
    count.bytes = (products + 2 * layers + 2) * 2 * hidden * (t - 1) / t;
  }
  ++count.calls;  // of the loss
  count.bytes += 24 * rows * (t - 1);
  if (c.sequence) {
    ++count.calls;  // shares of gradients
    count.bytes += 2 * shares * 4 * (t - 1) / t;
  }
  return count;
}

// Elements of gradients of which each rank has only a share with sequence parallelism.
int64_t replicated_elements(const std::string& name) {
  const auto model = models::gpt::build_model(small_config(name), {.device = at::kMeta});
  int64_t elements = 0;
  for (const nn::Parameter* parameter : model->parameters()) {
    if (parameter->mark.kind == ParamMark::Kind::replicated) elements += parameter->value.numel();
  }
  return elements;
}

TEST(TensorTraffic, EqualsThePageToTheByte) {
  using config::Recompute;
  const std::vector<TensorCase> cases = {
      {{.model = "cut_gpt2"}, {2, {"tensor=2"}}},
      {{.model = "cut_gpt2"}, {4, {"tensor=4"}}, 4},
      {{.model = "cut_gpt2"}, {2, {"tensor=2", "sequence_parallel=true"}}, 2, true},
      {{.model = "cut_gpt2", .recompute = Recompute::full}, {2, {"tensor=2"}}},
      {{.model = "cut_gpt2", .recompute = Recompute::full}, {4, {"tensor=4", "sequence_parallel=true"}}, 4, true},
      {{.model = "cut_llama", .precision = config::Precision::bf16}, {3, {"tensor=3"}}, 3},
      {{.model = "cut_llama", .precision = config::Precision::bf16}, {4, {"tensor=2"}}},
  };
  for (const TensorCase& c : cases) {
    SCOPED_TRACE(c.training.model + " on " + c.layout.name());
    const Outcome outcome = train(c.training, c.layout);
    const int64_t rows = c.training.sequences / (c.layout.ranks / c.tensor) * small_sequence;
    for (const auto& traffic : outcome.traffic) {
      EXPECT_EQ(counted(traffic.at("tensor")), expected_traffic(c, rows, replicated_elements(c.training.model)));
    }
  }
}

}  // namespace
}  // namespace terrace::parallel

// Compares trainings whose positions are cut over ranks with one rank, and their traffic with the formulas of
// docs/context.md.
#include <gtest/gtest.h>

#include "tests/parallel/accuracy.h"
#include "tests/parallel/count.h"

namespace terrace::parallel {
namespace {

using config::Recompute;

void expect_context(const Training& training, const std::vector<int64_t>& sizes, const std::vector<std::string>& routes,
                    int64_t draws = 8) {
  std::vector<Layout> layouts;
  for (const int64_t context : sizes) {
    for (const std::string& route : routes) {
      for (const Layout& layout : context_layouts(context, route)) layouts.push_back(layout);
    }
  }
  Accuracy accuracy(nn::scalar_type(training.precision));
  accuracy.add(training, layouts, draws);
  accuracy.expect_as_accurate();
}

// cut_gpt2 has dropout; the results agree only if the same elements are dropped at every layout.
TEST(ContextParallel, GptWithDropout) {
  expect_context({.model = "cut_gpt2"}, {2}, {"ring", "gather", "heads"});
  expect_context({.model = "cut_gpt2"}, {4}, {"ring", "gather"}, 4);
}

TEST(ContextParallel, LlamaWithSharedKeys) {
  expect_context({.model = "cut_llama_sharing"}, {2}, {"ring", "gather", "heads"});
}

TEST(ContextParallel, Windows) { expect_context({.model = "cut_mistral"}, {2}, {"ring", "gather", "heads"}); }

TEST(ContextParallel, EveryRecomputeWithAccumulationInBf16) {
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    expect_context(
        {.model = "cut_qwen3", .precision = config::Precision::bf16, .recompute = recompute, .micro_batch = 3}, {2},
        {"ring", "heads"}, 20);
  }
}

struct ContextCase {
  Training training;
  Layout layout;
  int64_t context = 2, tensor = 1;
};

// Bytes that a rank sends on the group "context" in a step of `rows` of its positions, as the page says.
int64_t expected_bytes(const ContextCase& c, int64_t rows) {
  const models::gpt::ModelConfig model = small_config(c.training.model);
  const int64_t bytes = c.training.precision == config::Precision::fp32 ? 4 : 2, ranks = c.context;
  const int64_t again = c.training.recompute == Recompute::none ? 0 : 1;
  const int64_t heads = model.heads / c.tensor, groups = std::max<int64_t>(1, model.kv_heads / c.tensor);
  const int64_t keys = rows * 2 * groups * model.head_dim, queries = rows * heads * model.head_dim;
  if (c.layout.name().find("heads") != std::string::npos) {
    const int64_t repeated = rows * 2 * std::max(groups, ranks) * model.head_dim;
    return model.layers * (2 + again) * (2 * queries + repeated) * bytes * (ranks - 1) / ranks;
  }
  return model.layers * (ranks - 1) * keys * ((2 + again) * bytes + 4);
}

TEST(ContextTraffic, EqualsThePageToTheByte) {
  using config::Precision;
  std::vector<ContextCase> cases;
  for (const char* route : {"ring", "gather", "heads"}) {
    const std::string by = std::string("context_route=") + route;
    cases.push_back({{.model = "cut_llama"}, {2, {"context=2", by}}});
    cases.push_back({{.model = "cut_gpt2", .precision = Precision::bf16}, {4, {"context=4", by}}, 4});
    cases.push_back({{.model = "cut_llama_sharing", .recompute = Recompute::selective},
                     {4, {"context=2", by, "tensor=2", "sequence_parallel=true"}},
                     2,
                     2});
    cases.push_back({{.model = "cut_llama", .recompute = Recompute::full}, {4, {"context=2", by, "sharding=zero3"}}});
  }
  for (const ContextCase& c : cases) {
    SCOPED_TRACE(c.training.model + " on " + c.layout.name());
    const Outcome outcome = train(c.training, c.layout);
    const int64_t copies = c.layout.ranks / c.tensor / c.context;  // data-parallel ranks
    const int64_t rows = c.training.sequences / copies * small_sequence / c.context;
    for (const auto& traffic : outcome.traffic)
      EXPECT_EQ(counted(traffic.at("context")).bytes, expected_bytes(c, rows));
  }
}

}  // namespace
}  // namespace terrace::parallel

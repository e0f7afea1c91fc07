// Combines all kinds of parallelism: trains layouts of up to eight ranks in which each pair of settings occurs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/parallel/accuracy.h"
#include "tests/parallel/pairwise.h"

namespace terrace::parallel {
namespace {

using terrace::testing::Combination;
using terrace::testing::ValuePair;

enum Setting { tensor, pipeline, data, sharding, schedule, sequence, recompute, precision, model };

constexpr int64_t most_ranks = 8;

const std::vector<std::vector<std::string>>& values() {
  static const std::vector<std::vector<std::string>> values{
      {"tensor 1", "tensor 2", "tensor 3", "tensor 4"},
      {"pipeline 1", "pipeline 2", "pipeline 3", "pipeline 4"},
      {"data 1", "data 2", "data 3", "data 4"},
      {"ddp", "zero1", "zero2", "zero3", "hybrid", "node", "three_level"},
      {"no schedule", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"},
      {"sequence whole", "sequence cut"},
      {"no recompute", "selective", "full"},
      {"fp32", "bf16"},
      {"gpt2", "llama", "stack"},
  };
  return values;
}

int64_t ranks_of(const Combination& row, Setting setting) { return static_cast<int64_t>(row[setting]) + 1; }

bool is_possible(const Combination& row) {
  const int64_t tensors = ranks_of(row, tensor), stages = ranks_of(row, pipeline);
  if (tensors * stages * ranks_of(row, data) > most_ranks) return false;
  if ((row[schedule] == 0) != (stages == 1)) return false;
  const bool is_stack = row[model] == 2;  // a model whose hidden states have no sequence
  return row[sequence] == 0 || (small_sequence % tensors == 0 && tensors > 1 && !is_stack);
}

std::vector<Combination> possible_rows() {
  std::vector<size_t> sizes;
  for (const auto& setting : values()) sizes.push_back(setting.size());
  return terrace::testing::all_combinations(sizes, is_possible);
}

const std::vector<Combination>& mixed_rows() {
  static const std::vector<Combination> rows = terrace::testing::pairwise_cover(possible_rows());
  return rows;
}

// Nodes and pairs have two data-parallel ranks each if the number of ranks is even.
void add_sharding(const Combination& row, std::vector<std::string>& keys) {
  const int64_t ranks = ranks_of(row, data), pair = ranks % 2 == 0 ? 2 : ranks, tensors = ranks_of(row, tensor);
  const std::string& name = values()[sharding][row[sharding]];
  keys.push_back("sharding=" + name);
  if (name == "hybrid") keys.push_back(fmt::format("shard_group={}", pair));
  if (name == "node") {
    keys.push_back(fmt::format("ranks_per_node={}", tensors * pair));
    keys.push_back(fmt::format("ranks_per_pair={}", tensors));
  }
  if (name == "three_level") {
    keys.push_back(fmt::format("ranks_per_node={}", tensors * ranks));
    keys.push_back(fmt::format("ranks_per_pair={}", tensors * (ranks % 2 == 0 ? 2 : 1)));
  }
}

Layout layout_of(const Combination& row) {
  const int64_t tensors = ranks_of(row, tensor), stages = ranks_of(row, pipeline);
  Layout layout{tensors * stages * ranks_of(row, data),
                {fmt::format("tensor={}", tensors), fmt::format("pipeline={}", stages)}};
  if (stages > 1) {
    const std::string& name = values()[schedule][row[schedule]];
    layout.keys.push_back("schedule=" + name);
    if (name == "interleaved" || name == "zb-v") layout.keys.push_back("chunks=2");
  }
  if (row[sequence] == 1) layout.keys.push_back("sequence_parallel=true");
  add_sharding(row, layout.keys);
  return layout;
}

Training training_of(const Combination& row) {
  // With six heads of keys and values each tensor rank has its own; with two heads, four ranks share them.
  const char* const llama = ranks_of(row, tensor) == 4 ? "cut_llama_sharing_deep" : "cut_llama_deep";
  const std::array models = {"cut_gpt2_deep", llama, "cut_deep_stack"};
  constexpr std::array recomputes = {config::Recompute::none, config::Recompute::selective, config::Recompute::full};
  return {.model = models.at(row[model]),
          .precision = row[precision] == 0 ? config::Precision::fp32 : config::Precision::bf16,
          .recompute = recomputes.at(row[recompute]),
          .micro_batch = 2};
}

std::string in_words(const ValuePair& pair) {
  return values()[pair.setting][pair.value] + " with " + values()[pair.other_setting][pair.other_value];
}

// Pairs that no layout can have: more than eight ranks, a schedule with one stage, a sequence that is not divisible.
std::set<std::string> impossible_pairs() {
  std::set<std::string> pairs;
  for (const auto& [a, b] : {std::pair(tensor, pipeline), std::pair(tensor, data), std::pair(pipeline, data)}) {
    for (const auto& [x, y] : {std::pair(2, 2), std::pair(2, 3), std::pair(3, 2), std::pair(3, 3)}) {
      pairs.insert(values()[a][x] + " with " + values()[b][y]);
    }
  }
  for (size_t i = 1; i < values()[schedule].size(); ++i) pairs.insert("pipeline 1 with " + values()[schedule][i]);
  for (int stages = 2; stages <= 4; ++stages) pairs.insert(fmt::format("pipeline {} with no schedule", stages));
  pairs.insert({"tensor 1 with sequence cut", "tensor 3 with sequence cut", "sequence cut with stack"});
  return pairs;
}

TEST(Mixed, EveryPairOfSettingsOccurs) {
  const std::set<ValuePair> seen = terrace::testing::pairs_among(mixed_rows());
  std::set<std::string> missing;
  for (size_t a = 0; a < values().size(); ++a) {
    for (size_t b = a + 1; b < values().size(); ++b) {
      for (size_t x = 0; x < values()[a].size(); ++x) {
        for (size_t y = 0; y < values()[b].size(); ++y) {
          if (!seen.contains({a, x, b, y})) missing.insert(in_words({a, x, b, y}));
        }
      }
    }
  }
  EXPECT_EQ(missing, impossible_pairs());
  EXPECT_LE(mixed_rows().size(), 60u);
}

// One test for each model and precision, so that the tests can run in parallel.
class MixedLayouts : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(MixedLayouts, AsAccurateAsOneRank) {
  const auto& [model_index, precision_index] = GetParam();
  std::map<std::pair<std::string, config::Recompute>, std::pair<Training, std::vector<Layout>>> by_training;
  for (const Combination& row : mixed_rows()) {
    if (row[model] != model_index || row[precision] != precision_index) continue;
    const Training training = training_of(row);
    auto& [same, layouts] = by_training[{training.model, training.recompute}];
    same = training;
    layouts.push_back(layout_of(row));
  }
  Accuracy accuracy(nn::scalar_type(by_training.begin()->second.first.precision));
  for (const auto& [key, rows] : by_training)
    accuracy.add(rows.first, rows.second, rows.first.precision == config::Precision::bf16 ? 24 : 12);
  accuracy.expect_as_accurate();
}

INSTANTIATE_TEST_SUITE_P(All, MixedLayouts,
                         ::testing::Combine(::testing::Range<size_t>(0, 3), ::testing::Range<size_t>(0, 2)),
                         [](const auto& info) {
                           return values()[model][std::get<0>(info.param)] + "_" +
                                  values()[precision][std::get<1>(info.param)];
                         });

}  // namespace
}  // namespace terrace::parallel

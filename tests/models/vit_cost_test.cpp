// Compares the closed forms of the vision transformer with the built model and with its unit table.
#include <gtest/gtest.h>

#include "tests/models/small_vits.h"
#include "tests/models/vit_formulas.h"

namespace terrace::models::vit {
namespace {

using schedule::Operation;
using schedule::UnitRow;

// ClimaX as published, at 5.625 degrees (arXiv 2301.10343).
ModelConfig climax(int64_t variables = 48) {
  ModelConfig config{.grid = {32, 64}, .patch = 2, .layers = 8, .width = 1024, .heads = 16};
  for (int64_t i = 0; i < variables; ++i) config.variables.push_back(fmt::format("variable_{}", i));
  config.channels = config.outputs = config.variables;
  return config;
}

int64_t elements_built(const ModelConfig& config) {
  return nn::whole_elements(built(config, {.device = at::kMeta})->parameters());
}

TEST(VitCost, ClimaXHasItsNumberOfParameters) {
  EXPECT_EQ(parameter_count(climax()), 108'088'512);
  EXPECT_EQ(elements_built(climax()), 108'088'512);
}

TEST(VitCost, ParametersAreThoseOfTheModelAndOfTheTable) {
  for (const SmallVit& small : small_vits()) {
    EXPECT_EQ(elements_built(small.config), parameter_count(small.config)) << small.name;
    EXPECT_EQ(schedule::elements(unit_table(small.config, {})), parameter_count(small.config)) << small.name;
  }
}

// Keys and values of 48 variables would take 202 MFLOP at a place, beside 218 for all blocks.
TEST(VitCost, VariablesAreAggregatedForLittle) {
  ModelConfig config = climax();
  const double places = static_cast<double>(config.places());
  const double blocks = static_cast<double>(config.layers) *
                        (attention_linear_flops(config) + attention_score_flops(config) + ffn_flops(config)) / places;
  EXPECT_NEAR(blocks / 1e6, 218, 1);
  const double output_layer = 2.0 * 1024 * 1024;
  EXPECT_NEAR((aggregation_flops(config).of_place - output_layer) / 1e6, 0.5, 0.05);
  config.qk_norm = true;
  EXPECT_NEAR((aggregation_flops(config).of_place - output_layer) / 1e6, 0.54, 0.05);
}

double flops_of(const std::vector<Operation>& operations) {
  double sum = 0;
  for (const Operation& one : operations) sum += one.flops();
  return sum;
}

TEST(VitCost, TheOperationsHaveTheFlopsOfTheFormulas) {
  for (const SmallVit& small : small_vits()) {
    for (const UnitRow& row : unit_table(small.config, {.samples = 3})) {
      SCOPED_TRACE(small.name + " " + row.name);
      EXPECT_DOUBLE_EQ(flops_of(row.operations.forward), row.forward_flops);
      EXPECT_DOUBLE_EQ(flops_of(row.operations.weight_gradient), row.weight_gradient_flops);
    }
  }
}

// A tensor rank has its part of what is cut, and with sequence parallelism its part of the places.
TEST(VitCost, TensorRanksShareTheWork) {
  const ModelConfig config = small_vit();
  const auto whole = unit_table(config, {.samples = 2});
  const auto part = unit_table(config, {.samples = 2, .tensor_ranks = 3, .sequence_parallel = true});
  for (size_t unit = 0; unit < whole.size(); ++unit) {
    // Each rank computes what depends on the lead alone.
    const double by_each = unit == 0 ? 2 * lead_and_time_flops(config) : 0;
    EXPECT_DOUBLE_EQ((flops_of(part[unit].operations.forward) - by_each) * 3,
                     flops_of(whole[unit].operations.forward) - by_each);
    EXPECT_EQ(part[unit].forward_flops, whole[unit].forward_flops);
    EXPECT_EQ(part[unit].output_bytes * 3, whole[unit].output_bytes);
  }
}

// All figures of the rows beside operations.
TEST(VitCost, TheUnitTableEqualsTheClosedForms) {
  for (const SmallVit& small : small_vits()) {
    const ModelConfig& config = small.config;
    for (const UnitTableOptions& options :
         {UnitTableOptions{}, UnitTableOptions{.samples = 3, .element_bytes = 2, .tensor_ranks = 3},
          UnitTableOptions{.samples = 2, .tensor_ranks = 3, .sequence_parallel = true}}) {
      if (config.heads % options.tensor_ranks != 0) continue;
      SCOPED_TRACE(fmt::format("{} on {} ranks", small.name, options.tensor_ranks));
      const schedule::UnitTable table = unit_table(config, options);
      const UnitRow &embedding = table.front(), &attention = table[1], &ffn = table[2], &head = table.back();
      for (const auto mode : {config::Recompute::none, config::Recompute::selective, config::Recompute::full}) {
        const auto i = static_cast<size_t>(mode);
        EXPECT_EQ(embedding.kept_bytes[i], embedding_kept_bytes(config, options));
        for (int64_t layer = 0; layer < config.layers; ++layer) {
          const auto place = static_cast<size_t>(1 + 2 * layer);
          const int64_t drop_path = drop_path_kept_bytes(config, options, layer, mode);
          EXPECT_EQ(table[place].kept_bytes[i], attention_kept_bytes(config, options, mode) + drop_path);
          EXPECT_EQ(table[place + 1].kept_bytes[i], ffn_kept_bytes(config, options, mode) + drop_path);
        }
      }
      EXPECT_EQ(embedding.temporary_bytes, embedding_temporary_bytes(config, options));
      EXPECT_EQ(attention.temporary_bytes, attention_temporary_bytes(config, options));
      EXPECT_EQ(ffn.temporary_bytes, ffn_temporary_bytes(config, options));
      EXPECT_EQ(head.temporary_bytes, head_temporary_bytes(config, options));
      EXPECT_EQ(embedding.deferred_bytes, embedding_deferred_bytes(config, options));
      EXPECT_EQ(attention.deferred_bytes, attention_deferred_bytes(config, options));
      EXPECT_EQ(ffn.deferred_bytes, ffn_deferred_bytes(config, options));
      const auto samples = static_cast<double>(options.samples);
      EXPECT_EQ(attention.forward_flops, samples * (attention_linear_flops(config) + attention_score_flops(config)));
      EXPECT_EQ(ffn.forward_flops, samples * ffn_flops(config));
      EXPECT_EQ(head.forward_flops, samples * head_flops(config));
      const AggregationFlops aggregation = aggregation_flops(config);
      EXPECT_DOUBLE_EQ(embedding.forward_flops,
                       aggregation.once + samples * (static_cast<double>(config.places()) * aggregation.of_place +
                                                     lead_and_time_flops(config)));
    }
  }
}

}  // namespace
}  // namespace terrace::models::vit

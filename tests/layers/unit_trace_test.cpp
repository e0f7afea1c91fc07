// Traces small units and compares what follows with numbers worked out by hand.
#include "terrace/layers/unit_trace.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace terrace::layers {
namespace {

using schedule::Operation;
using schedule::TensorCollective;
using schedule::UnitRow;
using schedule::UnitTableOptions;

// Two samples of five positions, of width 6 with 8 inner columns.
UnitRow feed_forward(const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "blocks.0.ffn", .prefix = "blocks.0.", .layer = 0, .positions = 5});
  const Value x = unit.hidden(6);
  const Value y = unit.norm("norm", x, {});
  const Value first = unit.linear("first", y, 8, {.cut = WeightCut::outputs});
  const Value inner = unit.activation(first, Activation::gelu, /*in_product=*/false);
  unit.output(unit.add(x, unit.linear("second", inner, 6, {.bias = false, .cut = WeightCut::inputs})));
  return unit.finished();
}

double bytes_of(const std::vector<Operation>& operations, std::string_view name) {
  double sum = 0;
  for (const Operation& one : operations) sum += one.name == name ? one.bytes : 0;
  return sum;
}

TEST(UnitTraces, ParametersAndMarksFollowFromTheLayers) {
  const UnitRow row = feed_forward({.samples = 2});
  std::vector<std::string> names;
  for (const schedule::UnitParameter& parameter : row.parameters) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.norm.weight", "blocks.0.norm.bias", "blocks.0.first.weight",
                                             "blocks.0.first.bias", "blocks.0.second.weight"}));
  EXPECT_EQ(row.parameters[2].mark, ParamMark::sharded({8, 6}, 0, "tensor"));
  EXPECT_EQ(row.parameters[3].mark, ParamMark::sharded({8}, 0, "tensor"));
  EXPECT_EQ(row.parameters[4].mark, ParamMark::sharded({6, 8}, 1, "tensor"));
}

TEST(UnitTraces, BytesAreThoseOfDistinctValues) {
  const UnitRow row = feed_forward({.samples = 2});
  // Input and output of the norm, its mean and deviation, and both sides of the activation.
  const int64_t kept = 10 * (6 + 6 + 2 + 8 + 8) * 4;
  EXPECT_EQ(row.kept_bytes, (std::array<int64_t, 3>{kept, kept, 10 * 6 * 4}));
  // Inputs of both layers, gradients of their outputs, and those of the norm's parameters.
  EXPECT_EQ(row.deferred_bytes, 10 * (6 + 8 + 8 + 6) * 4 + 2 * 6 * 4);
  EXPECT_EQ(row.temporary_bytes, 10 * (6 + 8 + 8 + 6) * 4);
  EXPECT_EQ(row.output_bytes, 10 * 6 * 4);
}

TEST(UnitTraces, RanksShareWhatIsCut) {
  const UnitTableOptions cut{.samples = 2, .tensor_ranks = 2},
      sequence{.samples = 2, .tensor_ranks = 5, .sequence_parallel = true};
  EXPECT_EQ(feed_forward(cut).kept_bytes[0], 10 * (6 + 6 + 2 + 4 + 4) * 4);
  // Two of the ten positions, and of all of them a fifth of 8 columns, which is one in whole numbers.
  EXPECT_EQ(feed_forward(sequence).kept_bytes[0], 2 * (6 + 6 + 2) * 4 + 10 * (1 + 1) * 4);
  EXPECT_EQ(feed_forward(cut).forward_flops, feed_forward({.samples = 2}).forward_flops);
  const schedule::Operations operations = feed_forward(cut).operations;
  ASSERT_EQ(operations.forward_collectives.size(), 1u);  // the sum of the second layer
  EXPECT_EQ(operations.forward_collectives[0].kind, TensorCollective::Kind::all_reduce);
  EXPECT_EQ(operations.forward_collectives[0].bytes, 10.0 * 6 * 4);
  ASSERT_EQ(operations.backward_collectives.size(), 1u);  // that of the first one's input gradient
  EXPECT_EQ(feed_forward(sequence).operations.forward_collectives.size(), 2u);
  EXPECT_EQ(feed_forward(sequence).operations.backward_collectives.size(), 3u);
}

TEST(UnitTraces, DataHaveNoGradient) {
  const UnitTableOptions options{.samples = 3};
  UnitTrace unit(options, {.name = "embedding"});
  unit.output(unit.linear("embedding", unit.data(3, 7), 6, {}));
  const UnitRow row = unit.finished();
  EXPECT_TRUE(row.operations.input_gradient.empty());
  EXPECT_EQ(row.input_gradient_flops, 0);
  EXPECT_EQ(row.forward_flops, 2.0 * 3 * 7 * 6);
  EXPECT_EQ(row.weight_gradient_flops, row.forward_flops);
  // The unit belongs to no layer, so nothing recomputes it.
  EXPECT_EQ(row.kept_bytes, (std::array<int64_t, 3>{3 * 7 * 4, 3 * 7 * 4, 3 * 7 * 4}));
}

// A value that two layers read is kept once; its gradient is that of both.
TEST(UnitTraces, AValueThatTwoLayersReadIsKeptOnce) {
  const UnitTableOptions options{.samples = 3};
  UnitTrace unit(options, {.name = "layers.0", .layer = 0});
  const Value x = unit.hidden(4);
  unit.output(unit.linear("a", x, 5, {}));
  unit.output(unit.linear("b", x, 7, {}));
  const UnitRow row = unit.finished();
  EXPECT_EQ(row.kept_bytes[0], 3 * 4 * 4);
  EXPECT_EQ(row.deferred_bytes, 3 * (4 + 5 + 7) * 4);
  EXPECT_EQ(row.output_bytes, 3 * (5 + 7) * 4);
}

// A norm whose input goes on to a sum adds that sum's gradient in its backward, and one that reads a sum of branches
// makes it.
TEST(UnitTraces, NormsAddWhatSumsGive) {
  const UnitTableOptions options{.samples = 1};
  constexpr double hidden = 5 * 6 * 4, statistics = 5 * 2 * 4, parameters = 2 * 6 * 4, weight = 6 * 4;
  UnitTrace alone(options, {.name = "head", .positions = 5});
  alone.norm("norm", alone.hidden(6), {});
  UnitTrace branch(options, {.name = "blocks.0.ffn", .layer = 0, .positions = 5});
  const Value x = branch.branch_sum(6);
  branch.output(branch.add(x, branch.norm("norm", x, {})));
  EXPECT_EQ(bytes_of(alone.operations().forward, "norm"), 2 * hidden + statistics + parameters);
  EXPECT_EQ(bytes_of(branch.operations().forward, "norm"), 4 * hidden + statistics + parameters);
  EXPECT_EQ(bytes_of(alone.operations().input_gradient, "norm_backward"),
            3 * hidden + statistics + weight + parameters);
  EXPECT_EQ(bytes_of(branch.operations().input_gradient, "norm_backward"),
            4 * hidden + statistics + weight + parameters);
}

TEST(UnitTraces, SelectiveRecomputeLeavesOutTheSumsOfAttention) {
  const UnitTableOptions options{.samples = 2};
  UnitTrace unit(options, {.name = "blocks.0.attention", .layer = 0, .positions = 5});
  const Value joint = unit.linear("qkv", unit.hidden(6), 18, {});
  unit.output(unit.attention(joint, {.heads = 3, .head_dim = 2, .positions = 5}));
  const UnitRow row = unit.finished();
  EXPECT_EQ(row.kept_bytes, (std::array<int64_t, 3>{10 * (6 + 18 + 6 + 3) * 4, 10 * (6 + 18 + 6) * 4, 10 * 6 * 4}));
  // Half of the pairs of a causal model in forward, and in figures all of them.
  const double linear = 2.0 * 10 * 6 * 18, scores = 4.0 * 2 * 6 * 25;
  EXPECT_EQ(row.forward_flops, linear + scores / 2);
  EXPECT_EQ(row.input_gradient_flops, linear + scores);
  EXPECT_EQ(row.weight_gradient_flops, linear);
  EXPECT_EQ(row.counted_flops, 3 * (linear + scores));
}

TEST(UnitTraces, TheLastUnitKeepsNothing) {
  const UnitTableOptions options{.samples = 2};
  UnitTrace unit(options, {.name = "head", .positions = 5});
  unit.vocabulary_loss("head.output", unit.norm("head.norm", unit.hidden(6), {}), 11);
  const UnitRow row = unit.finished();
  EXPECT_EQ(row.kept_bytes, (std::array<int64_t, 3>{}));
  EXPECT_EQ(row.deferred_bytes, 0);
  EXPECT_EQ(row.output_bytes, 0);
  EXPECT_GT(row.temporary_bytes, 10 * 11 * 4);
  EXPECT_EQ(row.parameters.back().name, "head.output.weight");
}

// y = x W of positions has its derivative in forward, and backward differentiates both; the gradient of an energy is 1.
TEST(UnitTraces, WhatAnEnergyIsDifferentiatedByCountsTwice) {
  const UnitTableOptions options{.samples = 3};
  UnitTrace unit(options, {.name = "head", .differentiates = true, .defers = false, .counts_executed = true});
  Value positions = unit.data(3, 4);
  positions.on_differentiated = true;
  const Value hidden = unit.linear("hidden", positions, 5, {.bias = false});
  EXPECT_TRUE(hidden.on_differentiated);
  unit.linear("energy", hidden, 1, {.bias = false, .gives_energy = true});
  const UnitRow row = unit.finished();
  constexpr double first = 2 * 3 * 4 * 5, second = 2 * 3 * 5;
  EXPECT_EQ(row.forward_flops, 2 * (first + second));
  EXPECT_EQ(row.input_gradient_flops, first + second);  // of the derivative of the first, and of what the second reads
  EXPECT_EQ(row.weight_gradient_flops, 2 * (first + second));
  EXPECT_EQ(row.counted_flops, 5 * (first + second));
  // Inputs, and the gradients of outputs.
  EXPECT_EQ(row.kept_bytes[0], 3 * (4 + 5 + 5 + 1) * 4);
  EXPECT_EQ(row.deferred_bytes, 0);
}

// Groups of queries with a key and a value, as many as ranks and fewer.
TEST(UnitTraces, RanksOfOneGroupShareItsLastRows) {
  const RowGroups groups{.groups = 2, .shared = 4};
  EXPECT_EQ(rows_on_rank(24, groups, 1), 24);
  EXPECT_EQ(rows_on_rank(24, groups, 2), 12);
  EXPECT_EQ(rows_on_rank(24, groups, 4), 4 + 4);  // half of the 8 rows of queries of a group
  EXPECT_EQ(rows_on_rank(24, {}, 4), 6);
}

TEST(UnitTraces, ALaterLayerHasOtherNames) {
  const UnitRow row = renamed(feed_forward({}), "blocks.0.", "blocks.17.", 17);
  EXPECT_EQ(row.name, "blocks.17.ffn");
  EXPECT_EQ(row.layer, 17);
  EXPECT_EQ(row.parameters[2].name, "blocks.17.first.weight");
}

}  // namespace
}  // namespace terrace::layers

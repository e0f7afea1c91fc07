// Compares the operations of a GPT's units with the FLOPs of the unit table, with the formulas of docs/tensor.md and
// with numbers worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/schedule/operation.h"

namespace terrace::models {
namespace {

using models::gpt::Activation;
using models::gpt::ModelConfig;
using schedule::Operation;
using schedule::Operations;
using schedule::TensorCollective;
using schedule::UnitRow;
using schedule::UnitTable;
using schedule::UnitTableOptions;

ModelConfig config_of(Activation activation, int64_t kv_heads, bool tied) {
  ModelConfig config;
  config.layers = 2;
  config.width = 24;
  config.heads = 8;
  config.kv_heads = kv_heads;
  config.head_dim = 6;
  config.ffn_width = 52;
  config.sequence = 20;
  config.vocabulary = 61;
  config.vocabulary_multiple = 8;
  config.activation = activation;
  config.tied_head = tied;
  return config;
}

Operations operations_of(const ModelConfig& config, const UnitTableOptions& options, size_t unit) {
  return gpt::unit_table(config, options).at(unit).operations;
}
Operations embedding_operations(const ModelConfig& config, const UnitTableOptions& options) {
  return operations_of(config, options, 0);
}
Operations attention_operations(const ModelConfig& config, const UnitTableOptions& options) {
  return operations_of(config, options, 1);
}
Operations ffn_operations(const ModelConfig& config, const UnitTableOptions& options) {
  return operations_of(config, options, 2);
}
Operations head_operations(const ModelConfig& config, const UnitTableOptions& options) {
  return operations_of(config, options, static_cast<size_t>(2 * config.layers + 1));
}

struct Case {
  ModelConfig config;
  UnitTableOptions options;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Activation activation : {Activation::gelu, Activation::swiglu}) {
    for (const int64_t kv_heads : {8, 4, 2, 1}) {
      for (const int64_t tensor : {1, 2, 4}) {
        for (const bool flag : {false, true}) {
          for (const int64_t samples : {1, 33}) {
            for (const int64_t element_bytes : {2, 4}) {
              cases.push_back({config_of(activation, kv_heads, flag),
                               {.samples = samples,
                                .element_bytes = element_bytes,
                                .tensor_ranks = tensor,
                                .sequence_parallel = flag,
                                .fused_products = samples == 1}});
            }
          }
        }
      }
    }
  }
  return cases;
}

// FLOPs as the unit table counts them: attention's backward without the product that the fused kernel repeats.
double table_flops(const std::vector<Operation>& operations) {
  double sum = 0;
  for (Operation one : operations) {
    const double gradients = one.kind == Operation::Kind::attention && one.backward ? 2 : 1;
    one.backward = false;
    sum += gradients * one.flops();
  }
  return sum;
}

double bytes_of(const std::vector<Operation>& operations, std::string_view name) {
  double sum = 0;
  for (const Operation& one : operations) sum += one.name == name ? one.bytes : 0;
  return sum;
}

int64_t count_of(const std::vector<TensorCollective>& collectives) {
  int64_t count = 0;
  for (const TensorCollective& one : collectives) count += one.count;
  return count;
}

// Bytes that a rank of `ranks` sends (docs/communication.md).
double sent_bytes(const std::vector<TensorCollective>& collectives, int64_t ranks) {
  double sum = 0;
  for (const TensorCollective& one : collectives) {
    const double transfers = one.kind == TensorCollective::Kind::all_reduce ? 2 : 1;
    sum += transfers * one.bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  }
  return sum;
}

TEST(OperationsOfAGpt, FlopsEqualTheUnitTable) {
  for (const auto& [config, options] : all_cases()) {
    SCOPED_TRACE(fmt::format("{} groups on {} ranks", config.kv_heads, options.tensor_ranks));
    const auto ranks = static_cast<double>(options.tensor_ranks);
    for (const UnitRow& row : gpt::unit_table(config, options)) {
      SCOPED_TRACE(row.name);
      // Where ranks share a key and a value, each of them computes these columns of the joint projection.
      const int64_t shared =
          row.name.ends_with("attention") ? std::max<int64_t>(0, options.tensor_ranks - config.kv_heads) : 0;
      const double repeated = 2.0 * static_cast<double>(options.samples * config.sequence * config.width) *
                              static_cast<double>(2 * shared * config.head_dim);
      EXPECT_EQ(ranks * table_flops(row.operations.forward), row.forward_flops + repeated);
      EXPECT_EQ(ranks * table_flops(row.operations.input_gradient), row.input_gradient_flops + repeated);
      EXPECT_EQ(ranks * table_flops(row.operations.weight_gradient), row.weight_gradient_flops + repeated);
    }
  }
}

// The page counts with L layers, one micro-batch, n tokens and a bytes of hidden states.
TEST(OperationsOfAGpt, CollectivesEqualThePageOnTensorParallelism) {
  for (const auto& [config, options] : all_cases()) {
    const int64_t layers = config.layers, ranks = options.tensor_ranks, tokens = options.samples * config.sequence;
    const UnitTable table = gpt::unit_table(config, options);
    int64_t calls = 0;
    double bytes = 0;
    for (const UnitRow& row : table) {
      for (const auto& list : {row.operations.forward_collectives, row.operations.backward_collectives}) {
        calls += count_of(list);
        bytes += sent_bytes(list, ranks);
      }
    }
    if (ranks == 1) {
      EXPECT_EQ(calls, 0);
      continue;
    }
    // 660 tokens in 33 sequences of 20: a piece has at least 256 tokens and, if the sequence is cut, whole sequences.
    const int64_t pieces = options.samples == 1 ? 1 : 3;
    const double a = static_cast<double>(tokens * config.width * options.element_bytes);
    const double others = static_cast<double>(ranks - 1), loss = 24 * static_cast<double>(tokens) * others;
    if (options.sequence_parallel) {
      EXPECT_EQ(calls, 4 + layers * (8 + 2 * pieces) + 1);
      EXPECT_DOUBLE_EQ(bytes, static_cast<double>(4 + 10 * layers) * a * others / static_cast<double>(ranks) + loss);
    } else {
      EXPECT_EQ(calls, 2 + layers * (2 + 2 * pieces) + 1);
      EXPECT_DOUBLE_EQ(bytes, static_cast<double>(2 + 4 * layers) * 2 * a * others / static_cast<double>(ranks) + loss);
    }
  }
}

// A sequence of 20 tokens of width 24 on two ranks, each with 4 heads of width 6, in bf16.
TEST(OperationsOfAGpt, AttentionMatchesHandCalculation) {
  const ModelConfig config = config_of(Activation::gelu, 8, true);
  const Operations unit = attention_operations(config, {.element_bytes = 2, .tensor_ranks = 2});
  ASSERT_EQ(unit.forward.size(), 5u);
  // Reads x and weight and bias, and writes y and a mean and a deviation in fp32 for each token.
  EXPECT_EQ(unit.forward[0], schedule::memory_pass("norm", 2 * (20 * 24 * 2) + 2 * 24 * 2 + 2 * 20 * 4));
  EXPECT_EQ(unit.forward[1], schedule::matrix_product("qkv", 20, 4 * 3 * 6, 24, 2));
  EXPECT_EQ(unit.forward[2], (Operation{.kind = Operation::Kind::attention,
                                        .name = "attention",
                                        .m = 20,
                                        .n = 20,
                                        .k = 6,
                                        .count = 4,
                                        .bytes = 20 * 72 * 2 + 20 * 24 * 2 + 20 * 4 * 4,
                                        .causal = true}));
  EXPECT_EQ(unit.forward[3], schedule::matrix_product("attention output", 20, 24, 24, 2));
  EXPECT_EQ(unit.forward[4], schedule::memory_pass("add bias", 2 * (20 * 24 * 2) + 24 * 2));
  const std::vector<TensorCollective> sum = {{.bytes = 20 * 24 * 2}};
  EXPECT_EQ(unit.forward_collectives, sum);

  ASSERT_EQ(unit.input_gradient.size(), 5u);
  // Reads dy, the gradient of the residual, x, weight and statistics, and writes dx and two sums in fp32.
  EXPECT_EQ(unit.input_gradient[0],
            schedule::memory_pass("norm_backward", 4 * (20 * 24 * 2) + 24 * 2 + 2 * 20 * 4 + 2 * 24 * 4));
  EXPECT_EQ(unit.input_gradient[1], schedule::memory_pass("zero", 2 * 24 * 4, 2));
  EXPECT_EQ(unit.input_gradient[2], schedule::matrix_product("qkv", 20, 24, 72, 2));
  EXPECT_EQ(unit.input_gradient[3].flops(), 2.5 * unit.forward[2].flops());
  EXPECT_EQ(unit.input_gradient[4], schedule::matrix_product("attention output", 20, 24, 24, 2));
  ASSERT_EQ(unit.backward_collectives.size(), 1u);
  EXPECT_EQ(unit.backward_collectives[0].bytes, 20 * 24 * 2);
  EXPECT_EQ(unit.backward_collectives[0].meanwhile, TensorCollective::Meanwhile::weight_gradients);

  ASSERT_EQ(unit.weight_gradient.size(), 5u);
  EXPECT_EQ(unit.weight_gradient[0], schedule::memory_pass("add", 2 * 24 * (4 + 2 * 4), 2));
  EXPECT_EQ(unit.weight_gradient[1].bytes, 2 * (20 * 72 + 20 * 24) + 2 * 4 * (72 * 24));
  EXPECT_EQ(unit.weight_gradient[2], schedule::memory_pass("add_column_sums", 20 * 72 * 2 + 2 * 4 * 72));
  EXPECT_EQ(unit.weight_gradient[3].m * unit.weight_gradient[3].n, 24 * 24);
  EXPECT_EQ(unit.weight_gradient[4], schedule::memory_pass("add_column_sums", 20 * 24 * 2 + 2 * 4 * 24));
}

TEST(OperationsOfAGpt, ApplyActivationsWithinProductsOrByThemselves) {
  const ModelConfig gelu = config_of(Activation::gelu, 8, true), swiglu = config_of(Activation::swiglu, 8, true);
  UnitTableOptions options{.element_bytes = 2};
  const Operations fused = ffn_operations(gelu, options), gated = ffn_operations(swiglu, options);
  options.fused_products = false;
  const Operations separate = ffn_operations(gelu, options);
  constexpr double inner = 20 * 52 * 2;
  EXPECT_EQ(fused.forward[2], schedule::memory_pass("gelu", inner, 0));
  EXPECT_EQ(separate.forward[2], schedule::memory_pass("gelu", 2 * inner, 1));
  EXPECT_EQ(bytes_of(fused.input_gradient, "gelu_backward"), inner);
  EXPECT_EQ(bytes_of(separate.input_gradient, "gelu_backward"), 3 * inner);
  // Our kernels compute the error function in no product.
  EXPECT_EQ(ffn_operations(config_of(Activation::gelu_erf, 8, true), {.element_bytes = 2}).forward[2],
            schedule::memory_pass("gelu", 2 * inner, 1));
  // Gate and up are pairs of columns.
  EXPECT_EQ(gated.forward[1], schedule::matrix_product("ffn first", 20, 2 * 52, 24, 2));
  EXPECT_EQ(bytes_of(gated.forward, "swiglu"), 3 * inner);
  EXPECT_EQ(bytes_of(gated.input_gradient, "swiglu_backward"), 5 * inner);
  const Operations gated_within = ffn_operations(swiglu, {.element_bytes = 2, .cpu_products = true});
  EXPECT_EQ(gated_within.forward[2], schedule::memory_pass("swiglu", inner, 0));
  EXPECT_EQ(bytes_of(gated_within.input_gradient, "swiglu_backward"), 3 * inner);
  // A bf16 product is added to the fp32 gradient by a kernel of its own, beside the sums of the norm's parameters.
  EXPECT_EQ(bytes_of(fused.weight_gradient, "add"), 2 * 24 * (4 + 2 * 4));
  EXPECT_EQ(bytes_of(separate.weight_gradient, "add"), 2 * 24 * (4 + 2 * 4) + 2 * (24 * 52) * (2 + 2 * 4));
}

TEST(OperationsOfAGpt, DropElementsByPassesOverTheHiddenStates) {
  ModelConfig config = config_of(Activation::gelu, 8, true);
  constexpr double hidden = 20 * 24 * 4;
  EXPECT_EQ(bytes_of(attention_operations(config, {}).forward, "dropout"), 0);
  EXPECT_EQ(bytes_of(ffn_operations(config, {}).forward, "residual"), 3 * hidden);
  config.dropout = 0.1;
  EXPECT_EQ(bytes_of(embedding_operations(config, {}).forward, "dropout"), 2 * hidden);
  EXPECT_EQ(bytes_of(attention_operations(config, {}).forward, "dropout"), 2 * hidden);
  EXPECT_EQ(bytes_of(ffn_operations(config, {}).forward, "dropout"), 3 * hidden);
  EXPECT_EQ(bytes_of(ffn_operations(config, {}).forward, "residual"), 0);
  EXPECT_EQ(bytes_of(ffn_operations(config, {}).input_gradient, "dropout"), 2 * hidden);
}

// Separate operations compute all pairs of tokens, and no product twice.
TEST(OperationsOfAGpt, WriteScoresWhereProbabilitiesAreDropped) {
  ModelConfig config = config_of(Activation::gelu, 8, true);
  config.attention_dropout = 0.1;
  const Operations unit = attention_operations(config, {});
  constexpr double all_pairs = 2.0 * 20 * 20 * 8 * 6;
  EXPECT_EQ(unit.forward[2].flops(), 2 * all_pairs);
  EXPECT_EQ(unit.input_gradient[3].flops(), 4 * all_pairs);
  EXPECT_GT(unit.forward[2].bytes, 10 * 20 * 20 * 8 * 4);
}

// 20,096 columns of fp32 logits fit 64 MiB 834 times.
TEST(OperationsOfAGpt, ComputeTheLogitsOfAChunkOfTokensAtATime) {
  ModelConfig config = config_of(Activation::gelu, 8, false);
  config.sequence = 1024;
  config.vocabulary = 20000;
  config.vocabulary_multiple = 128;
  const Operations unit = head_operations(config, {});
  std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>> products;
  for (const Operation& one : unit.forward) {
    if (one.kind == Operation::Kind::product) products.emplace_back(one.count, one.m, one.n, one.k);
  }
  EXPECT_EQ(products,
            (std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{{1, 834, 20096, 24}, {1, 190, 20096, 24}}));
  // Each chunk adds to the whole gradient of the output matrix.
  EXPECT_EQ(bytes_of(unit.weight_gradient, "logits"), 4.0 * 1024 * (20096 + 24) + 2 * 2 * 4.0 * 20096 * 24);
  EXPECT_EQ(bytes_of(unit.forward, "cross_entropy"), 2 * 4.0 * 1024 * 20096 + 1024 * 16);
  // The least number of rows of a chunk counts for larger vocabularies.
  config.vocabulary = 250000;
  EXPECT_EQ(head_operations(config, {}).forward[1].m, 512);
}

TEST(OperationsOfAGpt, LookUpAndAddRowsInTheEmbedding) {
  const ModelConfig config = config_of(Activation::gelu, 8, true);
  constexpr double rows = 20 * 24 * 2, indices = 20 * 8, gradients = 20 * 24 * 4;
  const Operations whole = embedding_operations(config, {.element_bytes = 2});
  EXPECT_EQ(bytes_of(whole.forward, "embedding"), 2 * (indices + 2 * rows));
  EXPECT_EQ(bytes_of(whole.weight_gradient, "add_rows"), 2 * (indices + rows + 2 * gradients));
  EXPECT_TRUE(whole.input_gradient.empty());
  // Each of two ranks looks up all tokens, and the positions of its own half.
  const Operations cut =
      embedding_operations(config, {.element_bytes = 2, .tensor_ranks = 2, .sequence_parallel = true});
  EXPECT_EQ(bytes_of(cut.forward, "embedding"), 1.5 * (indices + 2 * rows));
  const std::vector<TensorCollective> scatter = {{.kind = TensorCollective::Kind::reduce_scatter, .bytes = rows}},
                                      gather = {{.kind = TensorCollective::Kind::all_gather, .bytes = rows}};
  EXPECT_EQ(cut.forward_collectives, scatter);
  EXPECT_EQ(cut.backward_collectives, gather);
}

}  // namespace
}  // namespace terrace::models

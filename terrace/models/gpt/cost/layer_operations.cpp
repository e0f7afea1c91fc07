// Lists what the operations of terrace/ops execute for the tokens of a GPT and for its loss.
#include "terrace/models/gpt/cost/layer_operations.h"

#include <algorithm>

#include "terrace/base/operation_limits.h"
#include "terrace/models/gpt/cost/cost.h"

namespace terrace::models::gpt {
namespace {

using schedule::LinearLayer;
using schedule::memory_pass;
using schedule::repeated;
using Kind = schedule::TensorCollective::Kind;
using Meanwhile = schedule::TensorCollective::Meanwhile;

// Sums are fp32, indices int64.
constexpr int64_t wide_bytes = 4, index_bytes = 8;

double product_of(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

schedule::TransformerShape shape_of(const ModelConfig& config) {
  return {.sequence = config.sequence,
          .width = config.width,
          .head_dim = config.head_dim,
          .window = config.window,
          .fused_attention = config.attention_dropout == 0.0,
          .bias = config.bias,
          .centered_norms = config.norm == Norm::layernorm,
          .norm_bias = config.bias,
          .dropout = config.dropout};
}

}  // namespace

LayerOperations::LayerOperations(const ModelConfig& config, const schedule::UnitTableOptions& options)
    : TransformerOperations(shape_of(config), options), config_(config) {}

void LayerOperations::embedding() {
  look_up(tokens_);
  if (is_cut_) {
    // The rows of tokens on other ranks become zeros; in backward those of a copy of the gradient.
    operations.forward.push_back(memory_pass("mask", 2 * hidden_));
    sum(operations.forward, operations.forward_collectives, Meanwhile::nothing);
    gather(operations.input_gradient, operations.backward_collectives);
    operations.input_gradient.push_back(memory_pass("mask", 4 * hidden_, 2));
  }
  if (config_.positions == Positions::learned) {
    look_up(own_tokens_);
    operations.forward.push_back(memory_pass("add positions", 3 * own_hidden_));
  }
}

void LayerOperations::vocabulary_loss(int64_t vocabulary) {
  gather(operations.forward, operations.forward_collectives);
  const int64_t rows = chunk_tokens(tokens_, vocabulary, options_);
  in_pieces(rows, [&](int64_t size, int64_t count) { chunk_of_logits(size, vocabulary, count); });
  // The input's gradient is waited for at once, since all weight gradients are computed by then.
  sum(operations.input_gradient, operations.backward_collectives, Meanwhile::nothing);
}

void LayerOperations::look_up(int64_t rows) {
  const double indices = product_of(rows, index_bytes), found = bytes_of(rows, config_.width);
  const double gradients = product_of(rows, config_.width * options_.gradient_bytes);
  operations.forward.push_back(memory_pass("embedding", indices + 2 * found));
  operations.weight_gradient.push_back(memory_pass("add_rows", indices + found + 2 * gradients));
}

// `count` chunks of so many tokens, from the product with the output matrix to the gradients.
void LayerOperations::chunk_of_logits(int64_t rows, int64_t vocabulary, int64_t count) {
  LinearLayer one = layer("logits", config_.width, vocabulary);
  one.rows = rows;
  operations.forward.push_back(repeated(count, forward_product(one)));
  operations.input_gradient.push_back(repeated(count, input_gradient_product(one)));
  weight_gradient(one, count);
  if (options_.cpu_products) {
    exponentials_of_logits(rows, vocabulary, count);
    return;
  }
  const double logits = product_of(rows, vocabulary);
  const auto element_bytes = static_cast<double>(options_.element_bytes);
  if (!is_cut_) {
    const double numbers = product_of(rows, index_bytes + 8);  // a token's target, and its loss as a double
    operations.forward.push_back(repeated(count, memory_pass("cross_entropy", 2 * logits * element_bytes + numbers)));
    return;
  }
  // Torch's operations in ops/cut_cross_entropy.cpp. Ten of them pass over the logits or an fp32 copy of them, the
  // others over a few numbers of each token. On a CPU torch sums them in double from one more copy.
  operations.forward.push_back(
      repeated(count, memory_pass("cut_cross_entropy", logits * (4 * element_bytes + 56), 57)));
  gather_row_sums(rows, count);
}

// As in ops/exponential_loss.cpp, whose product stores exponentials in place of logits.
void LayerOperations::exponentials_of_logits(int64_t rows, int64_t vocabulary, int64_t count) {
  const int64_t few = std::min(vocabulary, loss_reference_logits);
  const int64_t parts = (vocabulary + product_sum_columns - 1) / product_sum_columns;
  const double hidden = bytes_of(rows, config_.width);
  const double references = product_of(rows, 2 * few * wide_bytes + index_bytes + 2 * wide_bytes);
  operations.forward.push_back(
      repeated(count, memory_pass("loss_references", 3 * hidden + bytes_of(few, config_.width) + references)));
  operations.forward.push_back(repeated(count, memory_pass("row_sums", product_of(rows, parts * wide_bytes + 8))));
  operations.weight_gradient.push_back(
      repeated(count, memory_pass("scaled_rows", 2 * hidden + product_of(rows, wide_bytes))));
  if (is_cut_) gather_row_sums(rows, count);
}

// Of each token three doubles from each rank.
void LayerOperations::gather_row_sums(int64_t rows, int64_t count) {
  const double numbers = product_of(rows * count, ranks_ * 3 * 8);
  operations.forward_collectives.push_back({.kind = Kind::all_gather, .bytes = numbers, .count = count});
}

}  // namespace terrace::models::gpt

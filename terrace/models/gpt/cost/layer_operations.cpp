// Lists what the operations of terrace/ops execute in forward and backward for each layer of a GPT.
#include "terrace/models/gpt/cost/layer_operations.h"

#include <algorithm>

#include "terrace/models/gpt/cost/cost.h"

namespace terrace::models::gpt {
namespace {

using schedule::LinearLayer;
using schedule::memory_pass;
using schedule::Operation;
using schedule::TensorCollective;
using Kind = TensorCollective::Kind;
using Meanwhile = TensorCollective::Meanwhile;

// As in ops/cut.cpp: rows of a piece at least, and pieces at most.
constexpr int64_t least_piece_rows = 256, most_pieces = 4;
// Statistics and sums of norms and of attention are fp32, indices int64.
constexpr int64_t wide_bytes = 4, index_bytes = 8;

double product_of(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

Operation times(int64_t count, Operation one) {
  one.count *= count;
  one.bytes *= static_cast<double>(count);
  return one;
}

}  // namespace

LayerOperations::LayerOperations(const ModelConfig& config, const schedule::UnitTableOptions& options)
    : config_(config),
      options_(options),
      ranks_(options.tensor_ranks),
      is_cut_(ranks_ > 1),
      cuts_sequence_(is_cut_ && options.sequence_parallel),
      tokens_(options.samples * config.sequence),
      own_tokens_(cuts_sequence_ ? tokens_ / ranks_ : tokens_),
      hidden_(bytes_of(tokens_, config.width)),
      own_hidden_(bytes_of(own_tokens_, config.width)) {}

void LayerOperations::norm(const NormPlace& place) {
  const bool centered = config_.norm == Norm::layernorm;
  const int64_t parameters = centered && config_.bias ? 2 : 1;
  const double statistics = product_of(own_tokens_, (centered ? 2 : 1) * wide_bytes);
  const double sums = product_of(parameters, config_.width * wide_bytes);
  operations.forward.push_back(
      memory_pass("norm", (place.adds ? 4 : 2) * own_hidden_ + statistics + bytes_of(parameters, config_.width)));
  operations.input_gradient.push_back(memory_pass(
      "norm_backward", (place.in_residual ? 4 : 3) * own_hidden_ + statistics + bytes_of(1, config_.width) + sums));
  // The backward's sums of the parameters' gradients start at zero and are added to the gradients.
  operations.input_gradient.push_back(memory_pass("zero", sums, parameters));
  const double gradients = product_of(parameters, config_.width * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, parameters));
}

void LayerOperations::head_norm(int64_t queries, int64_t keys) {
  const double heads = bytes_of(tokens_ * (queries + keys), config_.head_dim);
  const double weights = bytes_of(2, config_.head_dim), sums = product_of(2, config_.head_dim * wide_bytes);
  const double statistics = product_of(tokens_ * (queries + keys), wide_bytes);
  // Queries and keys are copied out of the joint projection and back into its successor, values into the latter.
  const Operation copies = memory_pass("copy", 4 * heads + 2 * bytes_of(tokens_ * keys, config_.head_dim), 5);
  operations.forward.push_back(memory_pass("norm", 2 * heads + statistics + weights, 2));
  operations.forward.push_back(copies);
  operations.input_gradient.push_back(memory_pass("norm_backward", 3 * heads + statistics + weights + sums, 2));
  operations.input_gradient.push_back(copies);
  operations.input_gradient.push_back(memory_pass("zero", sums, 2));
  const double gradients = product_of(2, config_.head_dim * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, 2));
}

void LayerOperations::cut_by_outputs(std::string_view name, int64_t outputs, bool bias) {
  LinearLayer one = layer(name, config_.width, outputs);
  one.bias = bias;
  gather(operations.forward, operations.forward_collectives);
  operations.forward.push_back(forward_product(one));
  // The gathered input is not kept for the backward.
  gather(operations.input_gradient, operations.backward_collectives);
  operations.input_gradient.push_back(input_gradient_product(one));
  sum(operations.input_gradient, operations.backward_collectives, Meanwhile::weight_gradients);
  layer_gradients(one, tokens_);
}

void LayerOperations::cut_by_inputs(std::string_view name, int64_t inputs) {
  const LinearLayer one = layer(name, inputs, config_.width);
  if (is_cut_) {
    sum_of_pieces(one);
    // The whole bias is added once, after the sum.
    if (one.bias) {
      operations.forward.push_back(memory_pass("add bias", 2 * own_hidden_ + bytes_of(1, config_.width)));
    }
  } else {
    operations.forward.push_back(forward_product(one));
  }
  gather(operations.input_gradient, operations.backward_collectives);
  operations.input_gradient.push_back(input_gradient_product(one));
  layer_gradients(one, own_tokens_);
}

void LayerOperations::attention(int64_t heads, double joint, double context) {
  const double log_sums = product_of(tokens_, heads * wide_bytes);
  Operation forward{.kind = Operation::Kind::attention,
                    .name = "attention",
                    .m = config_.sequence,
                    .n = config_.sequence,
                    .k = config_.head_dim,
                    .count = options_.samples * heads,
                    .bytes = joint + context + log_sums,
                    .causal = true,
                    .window = config_.window,
                    .fused = config_.attention_dropout == 0.0};
  Operation backward = forward;
  backward.backward = true;
  backward.bytes = 2 * joint + 2 * context + log_sums;
  if (!forward.fused) {
    // In forward two products write and read the scores; mask (a copy, then the mask itself), softmax and dropout read
    // and write them. In backward there are four products, and softmax reads its result as well.
    const double scores = bytes_of(tokens_ * heads, config_.sequence);
    forward.bytes = joint + context + 10 * scores;
    backward.bytes = 2 * joint + 2 * context + 13 * scores;
  }
  operations.forward.push_back(forward);
  operations.input_gradient.push_back(backward);
}

void LayerOperations::dropout(bool adds) {
  const bool drops = config_.dropout > 0;
  if (adds) operations.forward.push_back(memory_pass(drops ? "dropout" : "residual", 3 * own_hidden_));
  if (!adds && drops) operations.forward.push_back(memory_pass("dropout", 2 * own_hidden_));
  if (drops) operations.input_gradient.push_back(memory_pass("dropout", 2 * own_hidden_));
}

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
  const int64_t rows = chunk_tokens(tokens_, vocabulary, options_.element_bytes);
  in_pieces(rows, [&](int64_t size, int64_t count) { chunk_of_logits(size, vocabulary, count); });
  // The input's gradient is waited for at once, since all weight gradients are computed by then.
  sum(operations.input_gradient, operations.backward_collectives, Meanwhile::nothing);
}

LinearLayer LayerOperations::layer(std::string_view name, int64_t inputs, int64_t outputs) const {
  return {.name = name,
          .rows = tokens_,
          .inputs = inputs,
          .outputs = outputs,
          .bias = config_.bias,
          .element_bytes = options_.element_bytes,
          .gradient_bytes = options_.gradient_bytes};
}

double LayerOperations::bytes_of(int64_t rows, int64_t columns) const {
  return product_of(rows, columns * options_.element_bytes);
}

void LayerOperations::look_up(int64_t rows) {
  const double indices = product_of(rows, index_bytes), found = bytes_of(rows, config_.width);
  const double gradients = product_of(rows, config_.width * options_.gradient_bytes);
  operations.forward.push_back(memory_pass("embedding", indices + 2 * found));
  operations.weight_gradient.push_back(memory_pass("add_rows", indices + found + 2 * gradients));
}

// The weight gradients of `count` times so many rows, each of which is added to the whole gradient.
void LayerOperations::weight_gradient(const LinearLayer& one, int64_t count) {
  if (options_.fused_products || options_.gradient_bytes == options_.element_bytes) {
    operations.weight_gradient.push_back(times(count, weight_gradient_product(one)));
    return;
  }
  const Operation product =
      schedule::matrix_product(one.name, one.outputs, one.inputs, one.rows, options_.element_bytes);
  const double added = product_of(one.outputs, one.inputs * (options_.element_bytes + 2 * options_.gradient_bytes));
  operations.weight_gradient.push_back(times(count, product));
  operations.weight_gradient.push_back(times(count, memory_pass("add", added)));
}

void LayerOperations::layer_gradients(const LinearLayer& one, int64_t bias_rows) {
  weight_gradient(one, 1);
  if (one.bias) operations.weight_gradient.push_back(bias_gradient_sums(one, bias_rows));
}

// The product of a layer that is cut by inputs, and its sum over the ranks.
void LayerOperations::sum_of_pieces(LinearLayer one) {
  // With sequence parallelism a piece is whole sequences.
  const int64_t unit = cuts_sequence_ ? config_.sequence : 1;
  const int64_t least = std::max(least_piece_rows, (tokens_ + most_pieces - 1) / most_pieces);
  int64_t pieces = 0;
  in_pieces((least + unit - 1) / unit * unit, [&](int64_t rows, int64_t count) {
    one.rows = rows;
    operations.forward.push_back(times(count, forward_product(one)));
    if (cuts_sequence_ && rows > config_.sequence) {
      operations.forward.push_back(times(count, memory_pass("copy", 2 * bytes_of(rows, config_.width))));
    }
    pieces += count;
  });
  if (cuts_sequence_ && pieces > 1) operations.forward.push_back(memory_pass("concatenate", 2 * own_hidden_));
  operations.forward_collectives.push_back({.kind = cuts_sequence_ ? Kind::reduce_scatter : Kind::all_reduce,
                                            .bytes = hidden_,
                                            .count = pieces,
                                            .meanwhile = pieces > 1 ? Meanwhile::next_piece : Meanwhile::nothing});
}

// `count` chunks of so many tokens, from the product with the output matrix to the gradients.
void LayerOperations::chunk_of_logits(int64_t rows, int64_t vocabulary, int64_t count) {
  LinearLayer one = layer("logits", config_.width, vocabulary);
  one.rows = rows;
  operations.forward.push_back(times(count, forward_product(one)));
  operations.input_gradient.push_back(times(count, input_gradient_product(one)));
  weight_gradient(one, count);
  if (options_.cpu_products) {
    exponentials_of_logits(rows, vocabulary, count);
    return;
  }
  const double logits = product_of(rows, vocabulary);
  const auto element_bytes = static_cast<double>(options_.element_bytes);
  if (!is_cut_) {
    const double numbers = product_of(rows, index_bytes + 8);  // a token's target, and its loss as a double
    operations.forward.push_back(times(count, memory_pass("cross_entropy", 2 * logits * element_bytes + numbers)));
    return;
  }
  // Torch's operations in ops/cut_cross_entropy.cpp. Ten of them pass over the logits or an fp32 copy of them, the
  // others over a few numbers of each token. On a CPU torch sums them in double from one more copy.
  operations.forward.push_back(times(count, memory_pass("cut_cross_entropy", logits * (4 * element_bytes + 56), 57)));
  gather_row_sums(rows, count);
}

// As in ops/exponential_loss.cpp, whose product stores exponentials in place of logits.
void LayerOperations::exponentials_of_logits(int64_t rows, int64_t vocabulary, int64_t count) {
  constexpr int64_t first_logits = 64, sum_columns = 64;
  const int64_t few = std::min(vocabulary, first_logits), parts = (vocabulary + sum_columns - 1) / sum_columns;
  const double hidden = bytes_of(rows, config_.width);
  const double references = product_of(rows, 2 * few * wide_bytes + index_bytes + 2 * wide_bytes);
  operations.forward.push_back(
      times(count, memory_pass("loss_references", 3 * hidden + bytes_of(few, config_.width) + references)));
  operations.forward.push_back(times(count, memory_pass("row_sums", product_of(rows, parts * wide_bytes + 8))));
  operations.weight_gradient.push_back(
      times(count, memory_pass("scaled_rows", 2 * hidden + product_of(rows, wide_bytes))));
  if (is_cut_) gather_row_sums(rows, count);
}

// Of each token three doubles from each rank.
void LayerOperations::gather_row_sums(int64_t rows, int64_t count) {
  const double numbers = product_of(rows * count, ranks_ * 3 * 8);
  operations.forward_collectives.push_back({.kind = Kind::all_gather, .bytes = numbers, .count = count});
}

// Calls piece(rows, count) for the whole pieces of the micro-batch's tokens and for the rest.
template <typename Piece>
void LayerOperations::in_pieces(int64_t rows, const Piece& piece) const {
  if (tokens_ >= rows) piece(rows, tokens_ / rows);
  if (tokens_ % rows > 0) piece(tokens_ % rows, 1);
}

// Of hidden states; those of several sequences are put in order by a copy.
void LayerOperations::gather(std::vector<Operation>& list, std::vector<TensorCollective>& collectives) const {
  if (!cuts_sequence_) return;
  collectives.push_back({.kind = Kind::all_gather, .bytes = hidden_});
  if (options_.samples > 1) list.push_back(memory_pass("copy", 2 * hidden_));
}

void LayerOperations::sum(std::vector<Operation>& list, std::vector<TensorCollective>& collectives,
                          Meanwhile meanwhile) const {
  if (!is_cut_) return;
  collectives.push_back(
      {.kind = cuts_sequence_ ? Kind::reduce_scatter : Kind::all_reduce, .bytes = hidden_, .meanwhile = meanwhile});
  if (cuts_sequence_ && options_.samples > 1) list.push_back(memory_pass("copy", 2 * hidden_));
}

}  // namespace terrace::models::gpt

// Lists what the operations of terrace/ops execute in forward and backward for each layer of a transformer.
#include "terrace/schedule/transformer_operations.h"

#include "terrace/base/operation_limits.h"

namespace terrace::schedule {
namespace {

using CollectiveKind = TensorCollective::Kind;
using Meanwhile = TensorCollective::Meanwhile;

// Statistics and sums of norms and of attention are fp32.
constexpr int64_t wide_bytes = 4;

double multiplied(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

}  // namespace

TransformerOperations::TransformerOperations(const TransformerShape& shape, const UnitTableOptions& options)
    : shape_(shape),
      options_(options),
      ranks_(options.tensor_ranks),
      is_cut_(ranks_ > 1),
      cuts_sequence_(is_cut_ && options.sequence_parallel),
      tokens_(options.samples * shape.sequence),
      own_tokens_(cuts_sequence_ ? tokens_ / ranks_ : tokens_),
      hidden_(bytes_of(tokens_, shape.width)),
      own_hidden_(bytes_of(own_tokens_, shape.width)) {}

void TransformerOperations::norm(const NormPlace& place) {
  const bool centered = shape_.centered_norms;
  const int64_t parameters = centered && shape_.norm_bias ? 2 : 1;
  const double statistics = multiplied(own_tokens_, (centered ? 2 : 1) * wide_bytes);
  const double sums = multiplied(parameters, shape_.width * wide_bytes);
  operations.forward.push_back(
      memory_pass("norm", (place.adds ? 4 : 2) * own_hidden_ + statistics + bytes_of(parameters, shape_.width)));
  operations.input_gradient.push_back(memory_pass(
      "norm_backward", (place.in_residual ? 4 : 3) * own_hidden_ + statistics + bytes_of(1, shape_.width) + sums));
  // The backward's sums of the parameters' gradients start at zero and are added to the gradients.
  operations.input_gradient.push_back(memory_pass("zero", sums, parameters));
  const double gradients = multiplied(parameters, shape_.width * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, parameters));
}

void TransformerOperations::head_norm(int64_t queries, int64_t keys) {
  const double heads = bytes_of(tokens_ * (queries + keys), shape_.head_dim);
  // A bias of keys adds the same to all scores of a query, so that only queries have one.
  const int64_t parameters = shape_.head_norms_are_centered ? 3 : 2;
  const double weights = bytes_of(parameters, shape_.head_dim),
               sums = multiplied(parameters, shape_.head_dim * wide_bytes);
  const double statistics = multiplied(tokens_ * (queries + keys), (parameters - 1) * wide_bytes);
  // Queries and keys are copied out of the joint projection and back into its successor, values into the latter.
  const Operation copies = memory_pass("copy", 4 * heads + 2 * bytes_of(tokens_ * keys, shape_.head_dim), 5);
  operations.forward.push_back(memory_pass("norm", 2 * heads + statistics + weights, 2));
  operations.forward.push_back(copies);
  operations.input_gradient.push_back(
      memory_pass("norm_backward", 3 * heads + statistics + bytes_of(2, shape_.head_dim) + sums, 2));
  operations.input_gradient.push_back(copies);
  operations.input_gradient.push_back(memory_pass("zero", sums, parameters));
  const double gradients = multiplied(parameters, shape_.head_dim * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, parameters));
}

void TransformerOperations::cut_by_outputs(std::string_view name, int64_t outputs, bool bias) {
  LinearLayer one = layer(name, shape_.width, outputs);
  one.bias = bias;
  gather(operations.forward, operations.forward_collectives);
  operations.forward.push_back(forward_product(one));
  // The gathered input is not kept for the backward.
  gather(operations.input_gradient, operations.backward_collectives);
  operations.input_gradient.push_back(input_gradient_product(one));
  sum(operations.input_gradient, operations.backward_collectives, Meanwhile::weight_gradients);
  layer_gradients(one, tokens_);
}

void TransformerOperations::cut_by_inputs(std::string_view name, int64_t inputs) {
  const LinearLayer one = layer(name, inputs, shape_.width);
  if (is_cut_) {
    sum_of_pieces(one);
    // The whole bias is added once, after the sum.
    if (one.bias) {
      operations.forward.push_back(memory_pass("add bias", 2 * own_hidden_ + bytes_of(1, shape_.width)));
    }
  } else {
    operations.forward.push_back(forward_product(one));
  }
  gather(operations.input_gradient, operations.backward_collectives);
  operations.input_gradient.push_back(input_gradient_product(one));
  layer_gradients(one, own_tokens_);
}

void TransformerOperations::replicated(std::string_view name, int64_t inputs, int64_t outputs) {
  LinearLayer one = layer(name, inputs, outputs);
  one.rows = own_tokens_;
  operations.forward.push_back(forward_product(one));
  operations.input_gradient.push_back(input_gradient_product(one));
  layer_gradients(one, own_tokens_);
}

void TransformerOperations::gather_output(int64_t columns, int64_t element_bytes) {
  if (!cuts_sequence_) return;
  const double bytes = multiplied(tokens_, columns * element_bytes);
  operations.forward_collectives.push_back({.kind = CollectiveKind::all_gather, .bytes = bytes});
  if (options_.samples > 1) operations.forward.push_back(memory_pass("reorder", 2 * bytes));
}

void TransformerOperations::attention(int64_t heads, double joint, double context) {
  const double log_sums = multiplied(tokens_, heads * wide_bytes);
  Operation forward{.kind = Operation::Kind::attention,
                    .name = "attention",
                    .m = shape_.sequence,
                    .n = shape_.sequence,
                    .k = shape_.head_dim,
                    .count = options_.samples * heads,
                    .bytes = joint + context + log_sums,
                    .causal = shape_.causal,
                    .window = shape_.window,
                    .fused = shape_.fused_attention};
  Operation backward = forward;
  backward.backward = true;
  backward.bytes = 2 * joint + 2 * context + log_sums;
  if (!forward.fused) {
    // In forward two products write and read the scores; mask (a copy, then the mask itself), softmax and dropout read
    // and write them. In backward there are four products, and softmax reads its result as well.
    const double scores = bytes_of(tokens_ * heads, shape_.sequence);
    forward.bytes = joint + context + 10 * scores;
    backward.bytes = 2 * joint + 2 * context + 13 * scores;
  }
  operations.forward.push_back(forward);
  operations.input_gradient.push_back(backward);
}

void TransformerOperations::dropout(bool adds) {
  const bool drops = shape_.dropout > 0;
  if (adds) operations.forward.push_back(memory_pass(drops ? "dropout" : "residual", 3 * own_hidden_));
  if (!adds && drops) operations.forward.push_back(memory_pass("dropout", 2 * own_hidden_));
  if (drops) operations.input_gradient.push_back(memory_pass("dropout", 2 * own_hidden_));
}

LinearLayer TransformerOperations::layer(std::string_view name, int64_t inputs, int64_t outputs) const {
  return {.name = name,
          .rows = tokens_,
          .inputs = inputs,
          .outputs = outputs,
          .bias = shape_.bias,
          .element_bytes = options_.element_bytes,
          .gradient_bytes = options_.gradient_bytes};
}

double TransformerOperations::bytes_of(int64_t rows, int64_t columns) const {
  return multiplied(rows, columns * options_.element_bytes);
}

void TransformerOperations::weight_gradient(const LinearLayer& one, int64_t count) {
  if (options_.fused_products || options_.gradient_bytes == options_.element_bytes) {
    operations.weight_gradient.push_back(repeated(count, weight_gradient_product(one)));
    return;
  }
  const Operation product = matrix_product(one.name, one.outputs, one.inputs, one.rows, options_.element_bytes);
  const double added = multiplied(one.outputs, one.inputs * (options_.element_bytes + 2 * options_.gradient_bytes));
  operations.weight_gradient.push_back(repeated(count, product));
  operations.weight_gradient.push_back(repeated(count, memory_pass("add", added)));
}

void TransformerOperations::layer_gradients(const LinearLayer& one, int64_t bias_rows) {
  weight_gradient(one, 1);
  if (one.bias) operations.weight_gradient.push_back(bias_gradient_sums(one, bias_rows));
}

// The product of a layer that is cut by inputs, and its sum over the ranks.
void TransformerOperations::sum_of_pieces(LinearLayer one) {
  // With sequence parallelism a piece is whole sequences.
  const int64_t unit = cuts_sequence_ ? shape_.sequence : 1;
  int64_t pieces = 0;
  in_pieces(summed_piece_rows(tokens_, unit), [&](int64_t rows, int64_t count) {
    one.rows = rows;
    operations.forward.push_back(repeated(count, forward_product(one)));
    if (cuts_sequence_ && rows > shape_.sequence) {
      operations.forward.push_back(repeated(count, memory_pass("reorder", 2 * bytes_of(rows, shape_.width))));
    }
    pieces += count;
  });
  if (cuts_sequence_ && pieces > 1) operations.forward.push_back(memory_pass("concatenate", 2 * own_hidden_));
  operations.forward_collectives.push_back(
      {.kind = cuts_sequence_ ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
       .bytes = hidden_,
       .count = pieces,
       .meanwhile = pieces > 1 ? Meanwhile::next_piece : Meanwhile::nothing});
}

void TransformerOperations::gather(std::vector<Operation>& list, std::vector<TensorCollective>& collectives) const {
  if (!cuts_sequence_) return;
  collectives.push_back({.kind = CollectiveKind::all_gather, .bytes = hidden_});
  if (options_.samples > 1) list.push_back(memory_pass("reorder", 2 * hidden_));
}

void TransformerOperations::sum(std::vector<Operation>& list, std::vector<TensorCollective>& collectives,
                                Meanwhile meanwhile) const {
  if (!is_cut_) return;
  collectives.push_back({.kind = cuts_sequence_ ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                         .bytes = hidden_,
                         .meanwhile = meanwhile});
  if (cuts_sequence_ && options_.samples > 1) list.push_back(memory_pass("reorder", 2 * hidden_));
}

}  // namespace terrace::schedule

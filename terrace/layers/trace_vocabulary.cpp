// Traces the tables of tokens and the loss over a vocabulary.
#include <algorithm>

#include "terrace/base/operation_limits.h"
#include "terrace/layers/trace_bytes.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {
using schedule::LinearLayer;
using schedule::memory_pass;
using schedule::repeated;
using Kind = schedule::TensorCollective::Kind;
using Meanwhile = schedule::TensorCollective::Meanwhile;

Value UnitTrace::embedding(const std::string& name, int64_t rows, int64_t width) {
  const Value x = hidden(width);
  parameter(name + ".weight", ParamMark::sharded({rows, width}, 0, "tensor"));
  look_up(x.rows, width);
  if (!is_cut_) {
    defer(bytes(x));  // the gradient, which positions share
    return x;
  }
  // The rows of tokens on other ranks become zeros; in backward those of a copy of the gradient. Kept are indices
  // within the rank's rows, and a mask of the tokens that other ranks hold.
  const double hidden = bytes_of(x.rows, width);
  schedule::Operations& operations = row_.operations;
  operations.forward.push_back(memory_pass("mask", 2 * hidden));
  sum(operations.forward, operations.forward_collectives, hidden, Meanwhile::nothing);
  gather(operations.input_gradient, operations.backward_collectives, hidden);
  operations.input_gradient.push_back(memory_pass("mask", 4 * hidden, 2));
  keep(x.rows * (index_bytes + 1));
  defer(x.rows * (width * options_.element_bytes + index_bytes));
  return x;
}

Value UnitTrace::add_positions(const std::string& name, const Value& x, int64_t rows) {
  parameter(name + ".weight", ParamMark::replicated({rows, x.columns}));
  look_up(own_rows(x), x.columns);
  row_.operations.forward.push_back(memory_pass("add positions", 3 * static_cast<double>(bytes(x))));
  keep(rows / options_.context_ranks * index_bytes);
  defer(own_rows(x) * index_bytes + (is_cut_ ? bytes(x) : 0));
  return like(x);
}

void UnitTrace::look_up(int64_t rows, int64_t width) {
  const double indices = product_of(rows, index_bytes), found = bytes_of(rows, width);
  const double gradients = product_of(rows, width * options_.gradient_bytes);
  row_.operations.forward.push_back(memory_pass("embedding", indices + 2 * found));
  row_.operations.weight_gradient.push_back(memory_pass("add_rows", indices + found + 2 * gradients));
}

void UnitTrace::gather_rows(const Value& x, int64_t element_bytes) {
  if (!cuts_sequence_) return;
  const double bytes = product_of(x.rows, x.columns * element_bytes);
  gather(row_.operations.forward, row_.operations.forward_collectives, bytes);
}

void UnitTrace::vocabulary_loss(const std::string& name, const Value& x, int64_t vocabulary) {
  if (!name.empty()) parameter(name + ".weight", ParamMark::sharded({vocabulary, x.columns}, 0, "tensor"));
  const int64_t own = vocabulary / ranks_;
  const double hidden = bytes_of(x.rows, x.columns);
  schedule::Operations& operations = row_.operations;
  gather(operations.forward, operations.forward_collectives, hidden);
  const int64_t tokens = loss_chunk_tokens(x.rows, own * options_.element_bytes, loss_chunk_bytes(options_.on_gpu));
  in_pieces(x.rows, tokens, [&](int64_t size, int64_t count) { chunk_of_logits(size, x.columns, own, count); });
  // The input's gradient is waited for at once, since all weight gradients are computed by then.
  sum(operations.input_gradient, operations.backward_collectives, hidden, Meanwhile::nothing);
  const double flops = 2.0 * product_of(x.rows, x.columns) * static_cast<double>(vocabulary);
  add_flops(flops, flops, flops, 3 * flops);
  // The logits, and a copy of a piece of them in the order in which the weight gradient's product reads it; the input
  // after its norm, its gradient, and that of the norm's input.
  set_temporary(tokens * (own + std::min(own, product_copied_rows)) * options_.element_bytes + 3 * bytes(x));
  set_last();
}

// `count` chunks of so many tokens, from the product with the output matrix to the gradients.
void UnitTrace::chunk_of_logits(int64_t rows, int64_t width, int64_t vocabulary, int64_t count) {
  LinearLayer one = layer("logits", rows, width, vocabulary);
  one.bias = false;
  schedule::Operations& operations = row_.operations;
  operations.forward.push_back(repeated(count, forward_product(one)));
  operations.input_gradient.push_back(repeated(count, input_gradient_product(one)));
  weight_gradient(one, count);
  if (options_.cpu_products) {
    exponentials_of_logits(rows, width, vocabulary, count);
    return;
  }
  const double logits = product_of(rows, vocabulary);
  const auto element_bytes = static_cast<double>(options_.element_bytes);
  if (!is_cut_) {
    const double numbers = product_of(rows, index_bytes + 8);  // a token's target, and its loss as a double
    operations.forward.push_back(repeated(count, memory_pass("cross_entropy", 2 * logits * element_bytes + numbers)));
    return;
  }
  // Torch's operations in ops/loss/cut_cross_entropy.cpp. Ten of them pass over the logits or an fp32 copy of them, the
  // others over a few numbers of each token. On a CPU torch sums them in double from one more copy.
  operations.forward.push_back(
      repeated(count, memory_pass("cut_cross_entropy", logits * (4 * element_bytes + 56), 57)));
  gather_row_sums(rows, count);
}

// Adds the passes of ops/loss/exponential_loss.cpp, whose product stores exponentials in place of logits.
void UnitTrace::exponentials_of_logits(int64_t rows, int64_t width, int64_t vocabulary, int64_t count) {
  const int64_t few = std::min(vocabulary, loss_reference_logits);
  const int64_t parts = (vocabulary + product_sum_columns - 1) / product_sum_columns;
  const double hidden = bytes_of(rows, width);
  const double references = product_of(rows, 2 * few * wide_bytes + index_bytes + 2 * wide_bytes);
  schedule::Operations& operations = row_.operations;
  operations.forward.push_back(
      repeated(count, memory_pass("loss_references", 3 * hidden + bytes_of(few, width) + references)));
  operations.forward.push_back(repeated(count, memory_pass("row_sums", product_of(rows, parts * wide_bytes + 8))));
  operations.weight_gradient.push_back(
      repeated(count, memory_pass("scaled_rows", 2 * hidden + product_of(rows, wide_bytes))));
  if (is_cut_) gather_row_sums(rows, count);
}

// Gathers three doubles of each token from each rank.
void UnitTrace::gather_row_sums(int64_t rows, int64_t count) {
  const double numbers = product_of(rows * count, ranks_ * 3 * 8);
  row_.operations.forward_collectives.push_back({.kind = Kind::all_gather, .bytes = numbers, .count = count});
}

}  // namespace terrace::layers

// Traces sparse feed-forward layers, whose experts have the rows that a router gives them
// (models/transformer/experts.cpp).
#include <algorithm>

#include "terrace/layers/trace_bytes.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {

using schedule::LinearLayer;
using schedule::memory_pass;
using schedule::repeated;

namespace {

constexpr int64_t choice_bytes = 4;  // of the number of a chosen expert

int64_t halves_of(Activation activation) { return activation == Activation::swiglu ? 2 : 1; }

ParamMark mark_of_experts(std::vector<int64_t> shape) {
  ParamMark mark = ParamMark::replicated(std::move(shape));
  mark.of_experts = true;
  return mark;
}

// Calls compute(rows of an expert, experts) for even loads.
template <typename Compute>
void over_experts(int64_t rows, int64_t experts, const Compute& compute) {
  const int64_t fewer = rows / experts, rest = rows % experts;
  if (fewer > 0) compute(fewer, experts - rest);
  if (rest > 0) compute(fewer + 1, rest);
}

}  // namespace

Value UnitTrace::experts(const std::string& name, const Value& x, const ExpertLayout& layout) {
  const int64_t width = x.columns, first = halves_of(layout.activation) * layout.width;
  parameter(name + ".router.weight", ParamMark::replicated({layout.number, width}), /*always_fp32=*/true);
  parameter(name + ".experts.first.weight", mark_of_experts({layout.number, first, width}));
  parameter(name + ".experts.second.weight", mark_of_experts({layout.number, width, layout.width}));
  if (layout.bias) row_.buffers.push_back({unit_.prefix + name + ".router_bias", {layout.number}});
  row_.inactive_elements += (layout.number - layout.per_token) * width * (first + layout.width);
  const int64_t tokens = own_rows(x), rows = tokens * layout.per_token;
  router_product(tokens, width, layout);
  sums_of_choices(layout);
  schedule::Operations& operations = row_.operations;
  const double copies = 2 * bytes_of(rows, width), sums = bytes_of(rows + tokens, width);
  operations.forward.push_back(memory_pass("gather rows", copies));
  operations.forward.push_back(memory_pass("sum rows", sums));
  operations.input_gradient.push_back(memory_pass("gather rows", copies));
  operations.input_gradient.push_back(memory_pass("sum rows", sums));
  operations.input_gradient.push_back(memory_pass("add", 3 * static_cast<double>(bytes(x))));
  expert_products(rows, width, layout);
  exchanges_of_rows(rows, width, layout);
  const double flops = 2 * product_of(x.rows, layout.number * width) +
                       2 * product_of(x.rows * layout.per_token, width * (first + layout.width));
  add_flops(flops, flops, flops, 3 * flops);
  save(x);
  touch(x);
  const int64_t inner = rows * (first + layout.width) * options_.element_bytes,
                copied = rows * width * options_.element_bytes;
  const int64_t scores = tokens * layout.number * wide_bytes;
  // The rows and what is inside of the experts; their weights, the orders of rows and of pairs, the scores.
  keep(copied + inner + rows * (wide_bytes + 2 * index_bytes) + scores + bytes_of_choice(x, layout));
  row_.temporary_bytes += 2 * copied + inner + scores;
  // Where the sequence is cut, a linear layer of x keeps the gathered positions instead.
  if (cuts_sequence_ || deferred_.insert(x.number).second) defer(bytes(x));
  defer(2 * copied + inner + scores);
  return value(x.rows, width, width, x.cuts_rows);
}

int64_t UnitTrace::bytes_of_choice(const Value& x, const ExpertLayout& layout) const {
  return own_rows(x) * layout.per_token * choice_bytes + options_.samples * layout.number * index_bytes;
}

void UnitTrace::router_product(int64_t rows, int64_t width, const ExpertLayout& layout) {
  const LinearLayer one{.name = "router",
                        .rows = rows,
                        .inputs = width,
                        .outputs = layout.number,
                        .bias = false,
                        .element_bytes = wide_bytes,
                        .gradient_bytes = options_.gradient_bytes};
  schedule::Operations& operations = row_.operations;
  if (options_.element_bytes < wide_bytes) {
    const double bytes = product_of(rows, width * (options_.element_bytes + wide_bytes));
    operations.forward.push_back(memory_pass("widen", bytes));
    operations.input_gradient.push_back(memory_pass("narrow", bytes));
    operations.weight_gradient.push_back(memory_pass("widen", bytes));
    row_.temporary_bytes += rows * width * wide_bytes;
  }
  const double scores = product_of(rows, layout.number * wide_bytes);
  operations.forward.push_back(forward_product(one));
  operations.forward.push_back(memory_pass("choose", 2 * scores));
  operations.input_gradient.push_back(memory_pass("choose_backward", 2 * scores));
  operations.input_gradient.push_back(input_gradient_product(one));
  weight_gradient(one, 1);
}

void UnitTrace::expert_products(int64_t rows, int64_t width, const ExpertLayout& layout) {
  const int64_t first = halves_of(layout.activation) * layout.width;
  schedule::Operations& operations = row_.operations;
  // With even loads a rank gets as many rows for its experts as it has for all.
  over_experts(rows, layout.number / options_.expert_ranks, [&](int64_t of_expert, int64_t count) {
    for (LinearLayer one :
         {layer("experts first", of_expert, width, first), layer("experts second", of_expert, layout.width, width)}) {
      one.bias = false;
      operations.forward.push_back(repeated(count, forward_product(one)));
      operations.input_gradient.push_back(repeated(count, input_gradient_product(one)));
      weight_gradient(one, count);
    }
  });
  const std::set<int64_t> saved = saved_;
  const int64_t kept = saved_bytes_;
  Value inner = value(rows, first, first, false);
  activation(inner, layout.activation, layout.activation_in_product);
  // experts() counts what is kept of the rows.
  saved_ = saved;
  saved_bytes_ = kept;
}

// The numbers of rows, then rows and their weights to the experts and rows back; backward the other way.
void UnitTrace::exchanges_of_rows(int64_t rows, int64_t width, const ExpertLayout& layout) {
  const int64_t ranks = options_.expert_ranks;
  if (ranks == 1) return;
  const double elsewhere = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double counts = product_of(layout.number, index_bytes) * elsewhere;
  const double of_rows = bytes_of(rows, width) * elsewhere, of_weights = product_of(rows, wide_bytes) * elsewhere;
  schedule::Operations& operations = row_.operations;
  operations.forward_exchanges.push_back({.bytes = counts});
  operations.forward_exchanges.push_back({.bytes = of_weights});
  operations.forward_exchanges.push_back({.bytes = 2 * of_rows, .count = 2});
  operations.backward_exchanges.push_back({.bytes = of_weights});
  operations.backward_exchanges.push_back({.bytes = 2 * of_rows, .count = 2});
  // Arriving rows are put in the order of the experts, and back.
  const double copies = 2 * bytes_of(rows, width);
  for (std::vector<schedule::Operation>* list : {&operations.forward, &operations.input_gradient}) {
    list->push_back(memory_pass("gather rows", copies));
    list->push_back(memory_pass("sum rows", copies));
  }
  keep(2 * rows * index_bytes);
  row_.temporary_bytes += 2 * rows * (width * options_.element_bytes + wide_bytes);
}

// One call of the tensor ranks, and one of the context ranks in two halves.
void UnitTrace::sums_of_choices(const ExpertLayout& layout) {
  if (!layout.counts_sequences) return;
  const double bytes = product_of(options_.samples, layout.number * index_bytes);
  if (cuts_sequence_) row_.operations.forward_collectives.push_back({.bytes = bytes});
  if (options_.context_ranks == 1) return;
  const auto ranks = static_cast<double>(options_.context_ranks);
  using Move = schedule::ContextTransfer::Kind;
  for (const Move kind : {Move::reduce_scatter, Move::all_gather}) {
    row_.operations.forward_transfers.push_back({.kind = kind, .bytes = bytes * (ranks - 1) / ranks});
  }
}

}  // namespace terrace::layers

// Adds products, passes and bytes to the row of a unit.
#include "terrace/models/gnn/cost/unit_counter.h"

#include <cmath>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/graphs/graphs_request.h"

namespace terrace::models::gnn {
namespace {

using schedule::LinearLayer;

}  // namespace

CoarseShares coarse_shares(const ModelConfig& config) {
  if (config.edges == Edges::given) return {.nodes = 0.55, .edges = 0.55};
  return {.nodes = 0.5, .edges = 0.3};
}

UnitCounter::UnitCounter(schedule::UnitRow& row, const schedule::UnitTableOptions& options, const ModelConfig& config,
                         bool first)
    : row_(row),
      options_(options),
      differentiated_(config.has_derivatives()),
      pairs_(config.computes_pairs()),
      first_(first),
      shares_(coarse_shares(config)) {
  row.shares_graph = differentiated_;
}

int64_t UnitCounter::size(const char* name, double coarse_share) const {
  double share = 1;
  for (int64_t level = level_; level >= 0; --level, share *= coarse_share) {
    const auto found = options_.sizes.find(data::level_tensor(level, name));
    if (found != options_.sizes.end()) return std::llround(share * static_cast<double>(found->second));
  }
  return 0;
}

int64_t UnitCounter::count(Rows rows) const {
  const auto atoms = [&] { return size("atoms", shares_.nodes); };
  const auto edges = [&] { return size("edges", shares_.edges); };
  switch (rows) {
    case Rows::graphs:
      return options_.samples;
    case Rows::atoms:
      return atoms();
    case Rows::components:
      return 3 * atoms();
    case Rows::factors:
      return edges() / (pairs_ ? 2 : 1);
    case Rows::edges:
      break;
  }
  return edges();
}

void UnitCounter::parameter(const std::string& name, std::vector<int64_t> shape) {
  row_.parameters.push_back({name, ParamMark::replicated(std::move(shape))});
}

void UnitCounter::buffer(const std::string& name, std::vector<int64_t> shape) {
  row_.buffers.push_back({name, std::move(shape)});
}

void UnitCounter::keep_once(Rows rows, int64_t columns) {
  const int64_t bytes = count(rows) * columns * options_.element_bytes;
  for (const config::Recompute mode : {config::Recompute::none, config::Recompute::selective}) {
    row_.kept_bytes[static_cast<size_t>(mode)] += bytes;
  }
}

// What is differentiated twice keeps as much for the derivative of its derivative: gradients of what it gave.
void UnitCounter::keep(Rows rows, int64_t columns) { keep_once(rows, (differentiated_ ? 2 : 1) * columns); }

void UnitCounter::pass(std::string_view name, double bytes, int64_t kernels) {
  row_.operations.forward.push_back(schedule::memory_pass(name, (differentiated_ ? 2 : 1) * bytes, kernels));
  row_.operations.input_gradient.push_back(schedule::memory_pass(name, (differentiated_ ? 2 : 1) * bytes, kernels));
}

void UnitCounter::linear(const std::string& name, Rows rows, int64_t inputs, int64_t outputs, bool bias, Input input,
                         bool is_energy) {
  parameter(name + ".weight", {outputs, inputs});
  if (bias) parameter(name + ".bias", {outputs});
  product(rows, inputs, outputs, bias, input, is_energy);
}

void UnitCounter::scaled_linear(const std::string& name, Rows rows, int64_t inputs, int64_t outputs, Input input) {
  parameter(name + ".weight", {outputs, inputs});
  parameter(name + ".bias", {outputs});
  product(rows, inputs + 1, outputs, /*bias=*/false, input, /*is_energy=*/false);
}

// Of y = x W: where x depends on the vectors, the derivative of the energy multiplies the gradient of y by W in the
// forward already, and the backward of that product has one for the gradient of that gradient and one for W.
void UnitCounter::product(Rows rows, int64_t inputs, int64_t outputs, bool bias, Input input, bool is_energy) {
  const LinearLayer layer{.name = "linear",
                          .rows = count(rows),
                          .inputs = inputs,
                          .outputs = outputs,
                          .bias = bias,
                          .element_bytes = options_.element_bytes,
                          .gradient_bytes = options_.gradient_bytes};
  const bool sees_vectors = input == Input::both || input == Input::vectors || (input == Input::states && !first_);
  const bool sees_parameters = input == Input::both || input == Input::states;
  const bool twice = differentiated_ && sees_vectors;
  const auto add = [&](std::vector<schedule::Operation>& list, double& flops, const schedule::Operation& product) {
    list.push_back(product);
    flops += product.flops();
  };
  schedule::Operations& operations = row_.operations;
  add(operations.forward, row_.forward_flops, forward_product(layer));
  add(operations.weight_gradient, row_.weight_gradient_flops, weight_gradient_product(layer));
  if (sees_parameters) {
    add(operations.input_gradient, row_.input_gradient_flops, input_gradient_product(layer));
  }
  if (twice) {
    add(operations.forward, row_.forward_flops, input_gradient_product(layer));
    add(operations.weight_gradient, row_.weight_gradient_flops, weight_gradient_product(layer));
    if (!is_energy) add(operations.input_gradient, row_.input_gradient_flops, forward_product(layer));
  }
  row_.counted_flops = row_.forward_flops + row_.input_gradient_flops + row_.weight_gradient_flops;
  if (bias) operations.weight_gradient.push_back(bias_gradient_sums(layer, layer.rows));
  keep_once(rows, inputs + (twice ? outputs : 0));  // x, and the gradient of y
}

void UnitCounter::elements(std::string_view name, Rows rows, int64_t columns, int64_t read, int64_t written,
                           int64_t kept) {
  const auto tensor = static_cast<double>(count(rows) * columns * options_.element_bytes);
  pass(name, static_cast<double>(read + written) * tensor);
  keep(rows, kept * columns);
}

// The rows are read where they lie, and the sums are written once for each atom; next to what is written or read for
// each edge both are few.
void UnitCounter::gather(Rows rows, int64_t columns) {
  pass("gather", 2.0 * static_cast<double>(count(rows) * columns * options_.element_bytes));
}
void UnitCounter::segment_sum(Rows rows, int64_t columns) {
  pass("segment sum", static_cast<double>(count(rows) * columns * options_.element_bytes));
}

// Both rows of each edge are read where they lie; backward makes the gradients of factors.
void UnitCounter::message_sum(int64_t columns, int64_t factors) {
  pass("message sum", static_cast<double>(count(Rows::edges) * columns * options_.element_bytes));
  keep_once(Rows::factors, factors);
  keep(Rows::atoms, columns);
}

void UnitCounter::output(Rows rows, int64_t columns, int64_t element_bytes) {
  const int64_t bytes = count(rows) * columns * element_bytes;
  row_.output_bytes += bytes;
}

}  // namespace terrace::models::gnn

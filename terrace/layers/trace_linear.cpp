// Traces linear layers with the collectives of their cuts.
#include "terrace/base/operation_limits.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {

using schedule::LinearLayer;
using schedule::matrix_product;
using schedule::memory_pass;
using schedule::Operation;
using schedule::repeated;
using schedule::TensorCollective;
using Kind = TensorCollective::Kind;
using Meanwhile = TensorCollective::Meanwhile;

Value UnitTrace::linear(const std::string& name, const Value& x, int64_t outputs, const LinearLayout& layout) {
  linear_parameters(name, x, outputs, layout);
  return product(x, outputs, layout);
}

Value UnitTrace::product(const Value& x, int64_t outputs, const LinearLayout& layout) {
  const bool by_outputs = layout.cut == WeightCut::outputs;
  const int64_t own_outputs = by_outputs ? rows_on_rank(outputs, layout.rows, ranks_) : outputs;
  Value y = value(x.rows, outputs, own_outputs, !by_outputs);
  y.on_differentiated = x.on_differentiated;
  LinearLayer one =
      layer(layout.operation, layout.cut == WeightCut::none ? own_rows(x) : x.rows, x.own_columns, own_outputs);
  one.bias = layout.bias;
  switch (layout.cut) {
    case WeightCut::none:
      row_.operations.forward.push_back(forward_product(one));
      break;
    case WeightCut::outputs:
      forward_by_outputs(one);
      break;
    case WeightCut::inputs:
      forward_by_inputs(one, y);
      break;
  }
  gradients(one, x, y, layout.cut);
  const double flops = 2.0 * static_cast<double>(x.rows) * static_cast<double>(x.columns * outputs);
  add_flops(flops, x.on_parameters ? flops : 0, flops, 3 * flops);
  if (unit_.differentiates && x.on_differentiated) derivative(one, y, layout.gives_energy, flops);
  save(x);
  touch(x);
  touch(y);
  const int64_t rows = layout.cut == WeightCut::none ? own_rows(x) : x.rows;
  if (deferred_.insert(x.number).second) defer(rows * x.own_columns * options_.element_bytes);
  defer(rows * own_outputs * options_.element_bytes);
  // The bias needs the gradient of the rank's own positions besides.
  if (layout.cut == WeightCut::inputs && cuts_sequence_) defer(bytes(y));
  return y;
}

// Adds the derivative of y = x W, where the energy depends on x. It multiplies the gradient of y by W in the forward
// already, and the backward of that product has one product for the gradient of that gradient and one for W.
void UnitTrace::derivative(const LinearLayer& one, const Value& y, bool gives_energy, double flops) {
  row_.operations.forward.push_back(input_gradient_product(one));
  weight_gradient(one, 1);
  if (!gives_energy) row_.operations.input_gradient.push_back(forward_product(one));
  add_flops(flops, gives_energy ? 0 : flops, flops, 3 * flops);
  keep(bytes(y));
}

void UnitTrace::linear_parameters(const std::string& name, const Value& x, int64_t outputs,
                                  const LinearLayout& layout) {
  ParamMark weight = ParamMark::replicated({outputs, x.columns}), bias = ParamMark::replicated({outputs});
  if (layout.cut == WeightCut::inputs) weight = ParamMark::sharded({outputs, x.columns}, 1, "tensor");
  if (layout.cut == WeightCut::outputs) {
    weight = ParamMark::sharded({outputs, x.columns}, 0, "tensor");
    bias = ParamMark::sharded({outputs}, 0, "tensor");
    for (ParamMark* mark : {&weight, &bias}) {
      mark->groups = layout.rows.groups;
      mark->shared = layout.rows.shared;
    }
  }
  parameter(name + ".weight", std::move(weight), layout.always_fp32);
  if (layout.bias) parameter(name + ".bias", std::move(bias), layout.always_fp32);
}

void UnitTrace::forward_by_outputs(const LinearLayer& one) {
  gather(row_.operations.forward, row_.operations.forward_collectives, bytes_of(one.rows, one.inputs));
  row_.operations.forward.push_back(forward_product(one));
}

void UnitTrace::forward_by_inputs(const LinearLayer& one, const Value& y) {
  if (!is_cut_) {
    row_.operations.forward.push_back(forward_product(one));
    return;
  }
  sum_of_pieces(one, y);
  if (one.bias) {
    const double bias = bytes_of(1, one.outputs);
    row_.operations.forward.push_back(memory_pass("add bias", 2 * static_cast<double>(bytes(y)) + bias));
  }
}

void UnitTrace::gradients(const LinearLayer& one, const Value& x, const Value& y, WeightCut cut) {
  schedule::Operations& operations = row_.operations;
  // Hidden states that are gathered in forward are not kept for the backward.
  if (cut != WeightCut::none) {
    const int64_t columns = cut == WeightCut::outputs ? one.inputs : one.outputs;
    gather(operations.input_gradient, operations.backward_collectives, bytes_of(one.rows, columns));
  }
  if (x.on_parameters) operations.input_gradient.push_back(input_gradient_product(one));
  if (cut == WeightCut::outputs) {
    sum(operations.input_gradient, operations.backward_collectives, bytes_of(one.rows, one.inputs),
        Meanwhile::weight_gradients);
  }
  weight_gradient(one, 1);
  if (one.bias) {
    operations.weight_gradient.push_back(bias_gradient_sums(one, cut == WeightCut::outputs ? one.rows : own_rows(y)));
  }
}

void UnitTrace::weight_gradient(const LinearLayer& one, int64_t count) {
  std::vector<Operation>& list = row_.operations.weight_gradient;
  if (options_.fused_products || options_.gradient_bytes == options_.element_bytes) {
    list.push_back(repeated(count, weight_gradient_product(one)));
    return;
  }
  const double elements = static_cast<double>(one.outputs) * static_cast<double>(one.inputs);
  const auto bytes = static_cast<double>(options_.element_bytes + 2 * options_.gradient_bytes);
  list.push_back(repeated(count, matrix_product(one.name, one.outputs, one.inputs, one.rows, options_.element_bytes)));
  list.push_back(repeated(count, memory_pass("add", elements * bytes)));
}

// The product of a layer that is cut by inputs, and its sum over the ranks.
void UnitTrace::sum_of_pieces(LinearLayer one, const Value& y) {
  const int64_t rows = one.rows;
  const double whole = bytes_of(rows, one.outputs);
  // With sequence parallelism a piece is whole sequences.
  const int64_t piece = summed_piece_rows(rows, cuts_sequence_ ? unit_.positions : 1);
  int64_t pieces = 0;
  in_pieces(rows, piece, [&](int64_t size, int64_t count) {
    one.rows = size;
    row_.operations.forward.push_back(repeated(count, forward_product(one)));
    if (cuts_sequence_ && size > unit_.positions) {
      row_.operations.forward.push_back(repeated(count, memory_pass("reorder", 2 * bytes_of(size, one.outputs))));
    }
    pieces += count;
  });
  if (cuts_sequence_ && pieces > 1) {
    row_.operations.forward.push_back(memory_pass("concatenate", 2 * static_cast<double>(bytes(y))));
  }
  row_.operations.forward_collectives.push_back({.kind = cuts_sequence_ ? Kind::reduce_scatter : Kind::all_reduce,
                                                 .bytes = whole,
                                                 .count = pieces,
                                                 .meanwhile = pieces > 1 ? Meanwhile::next_piece : Meanwhile::nothing});
}

// Gathers hidden states; those of several samples are put in order by a copy.
void UnitTrace::gather(std::vector<Operation>& list, std::vector<TensorCollective>& collectives, double bytes) {
  if (!cuts_sequence_) return;
  collectives.push_back({.kind = Kind::all_gather, .bytes = bytes});
  if (options_.samples > 1) list.push_back(memory_pass("reorder", 2 * bytes));
}

void UnitTrace::sum(std::vector<Operation>& list, std::vector<TensorCollective>& collectives, double bytes,
                    Meanwhile meanwhile) {
  if (!is_cut_) return;
  collectives.push_back(
      {.kind = cuts_sequence_ ? Kind::reduce_scatter : Kind::all_reduce, .bytes = bytes, .meanwhile = meanwhile});
  if (cuts_sequence_ && options_.samples > 1) list.push_back(memory_pass("reorder", 2 * bytes));
}

LinearLayer UnitTrace::layer(std::string_view name, int64_t rows, int64_t inputs, int64_t outputs) const {
  return {.name = name,
          .rows = rows,
          .inputs = inputs,
          .outputs = outputs,
          .element_bytes = options_.element_bytes,
          .gradient_bytes = options_.gradient_bytes};
}

}  // namespace terrace::layers

// Traces norms and what passes over elements.
#include <algorithm>

#include "terrace/layers/trace_bytes.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {
using schedule::memory_pass;

Value UnitTrace::norm(const std::string& name, const Value& x, const NormLayout& layout) {
  const int64_t width = x.columns, parameters = layout.centered && layout.bias ? 2 : 1;
  parameter(name + ".weight", ParamMark::replicated({width}));
  if (parameters == 2) parameter(name + ".bias", ParamMark::replicated({width}));
  schedule::Operations& operations = row_.operations;
  const int64_t statistics = own_rows(x) * (layout.centered ? 2 : 1) * wide_bytes;
  const auto whole = static_cast<double>(bytes(x)), few = static_cast<double>(statistics);
  const double sums = product_of(parameters, width * wide_bytes);
  // A norm that adds a branch reads the hidden states and the branch, and writes the sum and its own result.
  const double read_and_written = x.number == to_add_ ? 4 : 2;
  to_add_ = x.number == to_add_ ? -1 : to_add_;
  operations.forward.push_back(memory_pass("norm", read_and_written * whole + few + bytes_of(parameters, width)));
  norms_.emplace_back(x.number, operations.input_gradient.size());
  operations.input_gradient.push_back(memory_pass("norm_backward", 3 * whole + few + bytes_of(1, width) + sums));
  // The backward's sums of the parameters' gradients start at zero and are added to the gradients.
  operations.input_gradient.push_back(memory_pass("zero", sums, parameters));
  const double gradients = product_of(parameters, width * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, parameters));
  save(x);
  keep(statistics);
  defer(parameters * width * wide_bytes);
  return like(x);
}

Value UnitTrace::head_norms(const std::string& name, const Value& joint, const HeadNormLayout& layout) {
  for (const char* of : {".query_norm", ".key_norm"}) {
    for (const char* part : {".weight", ".bias"}) {
      if (!layout.centered && std::string_view(part) == ".bias") continue;
      ParamMark mark = ParamMark::replicated({layout.width});
      mark.gradient_in_shares = true;  // a rank normalises the queries and keys of its own heads
      last_parameters_.push_back({unit_.prefix + name + of + part, std::move(mark)});
    }
  }
  const int64_t queries = layout.heads / ranks_, keys = std::max<int64_t>(1, layout.key_heads / ranks_);
  const int64_t rows = joint.rows * (queries + keys), parameters = layout.centered ? 3 : 2;
  const double heads = bytes_of(rows, layout.width), weights = bytes_of(parameters, layout.width);
  const double sums = product_of(parameters, layout.width * wide_bytes);
  const double statistics = product_of(rows, (parameters - 1) * wide_bytes);
  // Queries and keys are copied out of the joint projection and back into its successor, values into the latter.
  const auto copies = memory_pass("copy", 4 * heads + 2 * bytes_of(joint.rows * keys, layout.width), 5);
  schedule::Operations& operations = row_.operations;
  operations.forward.push_back(memory_pass("norm", 2 * heads + statistics + weights, 2));
  operations.forward.push_back(copies);
  operations.input_gradient.push_back(
      memory_pass("norm_backward", 3 * heads + statistics + bytes_of(2, layout.width) + sums, 2));
  operations.input_gradient.push_back(copies);
  operations.input_gradient.push_back(memory_pass("zero", sums, parameters));
  const double gradients = product_of(parameters, layout.width * options_.gradient_bytes);
  operations.weight_gradient.push_back(memory_pass("add", 2 * gradients + sums, parameters));
  const int64_t kept = rows * (layout.width * options_.element_bytes + (parameters - 1) * wide_bytes);
  keep(kept);
  row_.temporary_bytes += kept;
  defer(parameters * layout.width * wide_bytes);
  return like(joint);
}

Value UnitTrace::activation(const Value& x, Activation activation, bool in_product) {
  const bool pairs = is_gated(activation);
  const int64_t parts = pairs ? 2 : 1;
  const Value y = value(x.rows, x.columns / parts, x.own_columns / parts, x.cuts_rows);
  const auto inner = static_cast<double>(bytes(y));
  schedule::Operations& operations = row_.operations;
  if (activation == Activation::geglu) {
    // GELU reads the gates, and a product its result and the ups. Backward reads the gradient with ups and with gates,
    // computes GELU again, and writes both gradients, which a copy brings together.
    operations.forward.push_back(memory_pass("geglu", 5 * inner, 2));
    operations.input_gradient.push_back(memory_pass("geglu_backward", 15 * inner, 5));
  } else if (pairs) {
    // Within a product, SwiGLU only writes its result beside the pairs; its gradient reads the pairs, and is twice what
    // the product alone would write.
    const bool fused = in_product && options_.cpu_products;
    operations.forward.push_back(memory_pass("swiglu", fused ? inner : 3 * inner, fused ? 0 : 1));
    operations.input_gradient.push_back(memory_pass("swiglu_backward", fused ? 3 * inner : 5 * inner, fused ? 0 : 1));
  } else {
    // Within a product, GELU only writes its result beside its input, and its gradient only reads the input.
    const bool fused = in_product && options_.fused_products && activation == Activation::gelu;
    operations.forward.push_back(memory_pass("gelu", fused ? inner : 2 * inner, fused ? 0 : 1));
    operations.input_gradient.push_back(memory_pass("gelu_backward", fused ? inner : 3 * inner, fused ? 0 : 1));
  }
  save(x);
  return y;
}

Value UnitTrace::dropout(const Value& x, double rate) {
  if (rate == 0) return x;
  const auto pass = memory_pass("dropout", 2 * static_cast<double>(bytes(x)));
  row_.operations.forward.push_back(pass);
  row_.operations.input_gradient.push_back(pass);
  return like(x);
}

Value UnitTrace::drop_path(const Value& x) {
  // A factor for each sample is drawn, and multiplied with the branch.
  const int64_t factors = options_.samples * options_.element_bytes;
  const auto pass = memory_pass("drop path", 2 * static_cast<double>(bytes(x)));
  row_.operations.forward.push_back(memory_pass("dropout", 2 * static_cast<double>(factors)));
  row_.operations.forward.push_back(pass);
  row_.operations.input_gradient.push_back(pass);
  keep(factors);
  return like(x);
}

Value UnitTrace::add(const Value& x, const Value& branch) {
  read_by_sum(x);
  row_.operations.forward.push_back(memory_pass("residual", 3 * static_cast<double>(bytes(x))));
  return like(branch);
}

Value UnitTrace::add_dropped(const Value& x, const Value& branch, double rate) {
  if (rate == 0) return add(x, branch);
  read_by_sum(x);
  row_.operations.forward.push_back(memory_pass("dropout", 3 * static_cast<double>(bytes(x))));
  row_.operations.input_gradient.push_back(memory_pass("dropout", 2 * static_cast<double>(bytes(x))));
  return like(branch);
}

}  // namespace terrace::layers

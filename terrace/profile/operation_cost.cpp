// Computes FLOPs and bytes of operations from the shapes of their tensors.
#include "terrace/profile/operation_cost.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace terrace::profile {
namespace {

using Inputs = at::ArrayRef<const at::IValue>;

std::string_view name_of(const at::RecordFunction& operation) {
  std::string_view name = operation.name();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return name;
}

// The name of an in-place operation is that of the plain operation with an underscore appended.
bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(names, name) != names.end();
}

double product(at::IntArrayRef sizes) {
  double all = 1;
  for (const int64_t size : sizes) all *= static_cast<double>(size);
  return all;
}

// FLOPs of the product of [.., m, k] and [.., k, n].
double product_flops(const at::IValue& left, const at::IValue& right) {
  if (!left.isTensor() || !right.isTensor() || right.toTensor().dim() == 0) return 0;
  return 2 * product(left.toTensor().sizes()) * static_cast<double>(right.toTensor().size(-1));
}

bool is_causal(const at::RecordFunction& operation) {
  const auto schema = operation.operator_schema();
  if (!schema) return false;
  const std::optional<int> index = schema->argumentIndexWithName("is_causal");
  const Inputs inputs = operation.inputs();
  return index && static_cast<size_t>(*index) < inputs.size() && inputs[static_cast<size_t>(*index)].isBool() &&
         inputs[static_cast<size_t>(*index)].toBool();
}

// Queries and keys are [B, H, T, hd] and [B, H, S, hd]; `first` is the input that holds the queries.
double attention_flops(const at::RecordFunction& operation, size_t first, double each_pair) {
  const Inputs inputs = operation.inputs();
  if (inputs.size() < first + 2 || !inputs[first].isTensor() || !inputs[first + 1].isTensor()) return 0;
  const at::Tensor& queries = inputs[first].toTensor();
  const at::Tensor& keys = inputs[first + 1].toTensor();
  if (queries.dim() != 4 || keys.dim() != 4) return 0;
  const auto length = static_cast<double>(queries.size(2)), total = static_cast<double>(keys.size(2));
  // A causal mask lets query t see the keys 0 .. t, as far as they exist.
  const double seen = std::min(length, total);
  const double pairs = is_causal(operation) ? seen * (seen + 1) / 2 + (length - seen) * total : length * total;
  return each_pair * pairs * product(queries.sizes()) / length;
}

double flops_of(const at::RecordFunction& operation) {
  const std::string_view name = name_of(operation);
  const Inputs inputs = operation.inputs();
  if (is_one_of(name, {"mm", "bmm"}) && inputs.size() >= 2) return product_flops(inputs[0], inputs[1]);
  if (is_one_of(name, {"addmm", "baddbmm", "_addmm_activation"}) && inputs.size() >= 3) {
    return product_flops(inputs[1], inputs[2]);
  }
  constexpr std::string_view fused = "_scaled_dot_product_";
  if (!name.starts_with(fused) || name == "_scaled_dot_product_attention_math") return 0;
  return name.ends_with("_backward") ? attention_flops(operation, 1, 10) : attention_flops(operation, 0, 4);
}

double bytes_of_value(const at::IValue& value) {
  if (value.isTensor()) return bytes_of({value.toTensor()});
  double bytes = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of({tensor});
  }
  return bytes;
}

double bytes_of_values(Inputs values) {
  double bytes = 0;
  for (const at::IValue& value : values) bytes += bytes_of_value(value);
  return bytes;
}

// These operations only change the view of memory, allocate it without writing, or leave copying to an inner operation.
bool moves_nothing(std::string_view name) {
  constexpr std::array names = {
      "view",   "_unsafe_view", "view_as",   "reshape", "_reshape_alias", "as_strided",  "t",          "transpose",
      "expand", "expand_as",    "permute",   "movedim", "select",         "slice",       "narrow",     "squeeze",
      "split",  "chunk",        "unsqueeze", "unbind",  "unflatten",      "flatten",     "alias",      "detach",
      "mT",     "numpy_T",      "diagonal",  "empty",   "empty_like",     "new_empty",   "resize",     "empty_strided",
      "to",     "contiguous",   "type_as",   "conj",    "resolve_conj",   "resolve_neg", "result_type"};
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(names, name) != names.end();
}

// These operations read of their first input only the rows that they write.
bool reads_rows(std::string_view name) { return is_one_of(name, {"embedding", "index_select", "gather", "index"}); }

// These operations write their first input without reading it.
bool overwrites(std::string_view name) { return is_one_of(name, {"copy", "fill", "zero"}); }

}  // namespace

OperationCost cost_before(const at::RecordFunction& operation) {
  const std::string_view name = name_of(operation);
  if (moves_nothing(name)) return {};
  const Inputs inputs = operation.inputs();
  const bool reads_first = !reads_rows(name) && !overwrites(name);
  return {.flops = flops_of(operation),
          .bytes = bytes_of_values(reads_first || inputs.empty() ? inputs : inputs.slice(1))};
}

double bytes_after(const at::RecordFunction& operation) {
  const std::string_view name = name_of(operation);
  if (moves_nothing(name) || std::string_view(operation.overload_name()).find("out") != std::string_view::npos) {
    return 0;
  }
  const std::vector<at::IValue>& outputs = operation.outputs();
  return bytes_of_values(Inputs(outputs.data(), outputs.size())) * (reads_rows(name) ? 2 : 1);
}

std::string shapes_of(const at::RecordFunction& operation) {
  std::string text;
  for (const at::IValue& value : operation.inputs()) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    if (!text.empty()) text += ' ';
    text += fmt::format("[{}]", fmt::join(value.toTensor().sizes(), ", "));
  }
  return text;
}

}  // namespace terrace::profile

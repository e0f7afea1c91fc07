// Copies batches to a device, and marks parameters.
#include "terrace/models/model.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::models {

const at::Tensor& Batch::operator[](std::string_view name) const {
  static const at::Tensor none;
  const auto found = tensors.find(name);
  return found == tensors.end() ? none : found->second;
}

namespace {

at::ScalarType scalar_type(data::HostTensor::Type type) {
  using Type = data::HostTensor::Type;
  switch (type) {
    case Type::uint8:
      return at::kByte;
    case Type::int32:
      return at::kInt;
    case Type::int64:
      return at::kLong;
    case Type::bf16:
      return at::kBFloat16;
    case Type::fp32:
      return at::kFloat;
    case Type::fp64:
      return at::kDouble;
  }
  return at::kFloat;
}

// A tensor of the values, whose memory it owns from here on.
template <typename Value>
at::Tensor owning(std::vector<Value> values, at::IntArrayRef sizes, at::ScalarType type) {
  auto kept = std::make_shared<std::vector<Value>>(std::move(values));
  void* data = kept->data();
  return at::from_blob(
      data, sizes, [kept](void*) {}, type);
}

}  // namespace

Batch on_host(data::MicroBatch micro_batch, bool pinned) {
  const auto given = [&](const at::Tensor& tensor) { return pinned ? tensor.pin_memory() : tensor; };
  const auto samples = static_cast<int64_t>(micro_batch.samples.size());
  Batch batch{.samples = given(owning(std::move(micro_batch.samples), {samples}, at::kLong)),
              .counts = std::move(micro_batch.counts),
              .sizes = std::move(micro_batch.sizes),
              .places = std::move(micro_batch.places)};
  for (auto& [name, tensor] : micro_batch.tensors) {
    batch.tensors.emplace(name, given(owning(std::move(tensor.bytes), tensor.sizes, scalar_type(tensor.type))));
  }
  return batch;
}

Batch to_device(Batch batch, at::Device device) {
  constexpr bool without_waiting = true;  // where the memory is pinned
  batch.samples = batch.samples.to(device, without_waiting);
  for (auto& [name, tensor] : batch.tensors) tensor = tensor.to(device, without_waiting);
  return batch;
}

std::vector<double> gradient_scales(const std::vector<LossTerm>& losses, const std::vector<double>& counts,
                                    double loss_scale) {
  std::vector<double> scales;
  for (size_t term = 0; term < losses.size(); ++term) {
    scales.push_back(loss_scale * losses[term].weight / counts.at(term));
  }
  return scales;
}

double weighted_mean(const std::vector<LossTerm>& losses, const observe::TermSums& sums) {
  double mean = 0;
  for (size_t term = 0; term < losses.size(); ++term) {
    if (losses[term].weight != 0) {
      mean += losses[term].weight * (sums.at(term).values.front() / divisor_of(sums.at(term).count));
    }
  }
  return mean;
}

double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return std::max(a, b);
}

void set_counts(const std::vector<double>& counts, observe::TermSums& sums) {
  for (size_t term = 0; term < sums.size(); ++term) sums[term].count = counts.at(term);
}

observe::TermSums no_sums(const std::vector<LossTerm>& losses) {
  observe::TermSums none;
  for (const LossTerm& term : losses) {
    const double start = term.combine == Combine::sum ? 0.0 : -std::numeric_limits<double>::infinity();
    none.push_back({.values = std::vector<double>(static_cast<size_t>(term.numbers), start)});
  }
  return none;
}

void add(const std::vector<LossTerm>& losses, const observe::TermSums& more, observe::TermSums& sums) {
  for (size_t term = 0; term < losses.size(); ++term) {
    sums[term].count += more[term].count;
    for (size_t i = 0; i < sums[term].values.size(); ++i) {
      double& value = sums[term].values[i];
      const double other = more[term].values[i];
      value = losses[term].combine == Combine::sum ? value + other : larger(value, other);
    }
  }
}

Outputs Model::outputs(int64_t, const Tensors&, const Batch&, const Pass&) {
  throw UserError("models of this family have no outputs beside their loss");
}

namespace {

// Aborts if the buffers of the units are not those of the table, or if one has the name of a parameter.
void check_buffers(Model& model, const schedule::UnitTable& table) {
  std::set<std::string_view> names;
  for (const nn::Parameter* parameter : model.parameters()) names.insert(parameter->name);
  size_t in_table = 0;
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const std::vector<nn::Buffer*> buffers = model.unit_buffers(static_cast<int64_t>(unit));
    const std::vector<schedule::UnitBuffer>& rows = table[unit].buffers;
    TERRACE_CHECK(buffers.size() == rows.size(), "{} has {} buffers, {} in the table", table[unit].name, buffers.size(),
                  rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      TERRACE_CHECK(buffers[i]->name == rows[i].name && buffers[i]->value.sizes().vec() == rows[i].shape,
                    "the buffer {} is {} in the table or has another shape there", buffers[i]->name, rows[i].name);
      TERRACE_CHECK(names.insert(buffers[i]->name).second, "two tensors have the name {}", buffers[i]->name);
    }
    in_table += rows.size();
  }
  TERRACE_CHECK(in_table == model.buffers().size(), "{} buffers, {} in the table", model.buffers().size(), in_table);
}

}  // namespace

Tensors leaves_of_loss(Model& model, int64_t begin, const Tensors& input) {
  if (!model.has_other_leaves()) return {};
  Tensors leaves;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.requires_grad()) leaves.push_back(tensor);
  };
  for (const at::Tensor& tensor : input) add(tensor);
  for (int64_t unit = begin; unit < model.num_units(); ++unit) {
    for (const nn::Parameter* parameter : model.unit_parameters(unit)) add(parameter->value);
  }
  return leaves;
}

void mark_parameters(Model& model, const schedule::UnitTable& table, at::ScalarType type) {
  TERRACE_CHECK(model.num_units() == static_cast<int64_t>(table.size()), "{} units in the model, {} in its table",
                model.num_units(), table.size());
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const std::vector<nn::Parameter*> parameters = model.unit_parameters(static_cast<int64_t>(unit));
    const std::vector<schedule::UnitParameter>& rows = table[unit].parameters;
    TERRACE_CHECK(parameters.size() == rows.size(), "{} has {} parameters, {} in the table", table[unit].name,
                  parameters.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      TERRACE_CHECK(parameters[i]->name == rows[i].name, "{} is {} in the table", parameters[i]->name, rows[i].name);
      TERRACE_CHECK(parameters[i]->value.sizes().vec() == rows[i].mark.global_shape,
                    "{} has another shape in the table", rows[i].name);
      const at::ScalarType stated = rows[i].always_fp32 ? nn::Build{.type = type}.in_fp32().type : type;
      TERRACE_CHECK(parameters[i]->value.scalar_type() == stated, "{} has another type in the table", rows[i].name);
      parameters[i]->mark = rows[i].mark;
    }
  }
  check_buffers(model, table);
  check_marks(model.parameters());
}

void check_marks(const std::vector<nn::Parameter*>& parameters) {
  for (const nn::Parameter* parameter : parameters) {
    const ParamMark& mark = parameter->mark;
    TERRACE_CHECK(mark.kind != ParamMark::Kind::unmarked,
                  "no mark on {}: its family's cost/sharding.cpp has no rule for it", parameter->name);
    TERRACE_CHECK(mark.kind == ParamMark::Kind::replicated || mark.dim < parameter->value.dim(),
                  "{} is cut in dimension {} of {}", parameter->name, mark.dim, parameter->value.dim());
  }
}

}  // namespace terrace::models

// Copies batches to a device, and marks parameters.
#include "terrace/models/model.h"

#include <ATen/ops/from_blob.h>

#include "terrace/base/error.h"

namespace terrace::models {

const at::Tensor& Batch::operator[](std::string_view name) const {
  static const at::Tensor none;
  const auto found = tensors.find(name);
  return found == tensors.end() ? none : found->second;
}

Batch to_device(const data::MicroBatch& micro_batch, at::Device device) {
  // from_blob() takes a pointer to mutable values, but here the values are only copied.
  const auto copied = [&](const void* values, at::IntArrayRef sizes, at::ScalarType type) {
    return at::from_blob(const_cast<void*>(values), sizes, type).to(device, type, false, /*copy=*/true);
  };
  const auto samples = static_cast<int64_t>(micro_batch.samples.size());
  Batch batch{.samples = copied(micro_batch.samples.data(), {samples}, at::kLong), .counts = micro_batch.counts};
  for (const auto& [name, tensor] : micro_batch.tensors) {
    const at::ScalarType type = tensor.type == data::HostTensor::Type::int64 ? at::kLong : at::kFloat;
    batch.tensors.emplace(name, copied(tensor.bytes.data(), tensor.sizes, type));
  }
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

double weighted_mean(const std::vector<LossTerm>& losses, const std::vector<double>& sums,
                     const std::vector<double>& counts) {
  double mean = 0;
  for (size_t term = 0; term < losses.size(); ++term) {
    mean += losses[term].weight * (sums.at(term) / counts.at(term));
  }
  return mean;
}

Generator& generator_of(Model& model) {
  auto* generator = dynamic_cast<Generator*>(&model);
  if (generator == nullptr) throw UserError("the model is of a family that generates no text");
  return *generator;
}

void mark_parameters(Model& model, const schedule::UnitTable& table) {
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
      parameters[i]->mark = rows[i].mark;
    }
  }
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

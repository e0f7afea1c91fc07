// Builds a model from a checkpoint and computes its outputs for batches of structures.
#include "terrace/predict/graph_predictor.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/data/graphs/graph_batch.h"
#include "terrace/data/graphs/graphs_config.h"
#include "terrace/data/graphs/structures/elements.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "terrace/models/families.h"
#include "terrace/schedule/description.h"

namespace terrace::predict {
namespace {

void append(const at::Tensor& tensor, std::vector<double>& values) {
  const at::Tensor own = tensor.to(at::kCPU, at::kDouble).contiguous();
  const double* begin = own.const_data_ptr<double>();
  values.insert(values.end(), begin, begin + own.numel());
}

void read_weights(models::Model& model, const checkpoint::Reader& reader) {
  checkpoint::Collection weights{"weights", {}}, buffers{checkpoint::buffers_collection, {}};
  for (const nn::Parameter* parameter : model.parameters()) {
    weights.tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  for (const nn::Buffer* buffer : model.buffers()) {
    buffers.tensors.push_back({buffer->name, buffer->value, ParamMark::replicated(buffer->value.sizes().vec())});
  }
  const at::NoGradGuard no_grad;
  reader.read(weights);
  reader.read(buffers);
}

}  // namespace

GraphPredictor::GraphPredictor(const std::filesystem::path& checkpoint) {
  const checkpoint::Reader reader(checkpoint::resolve(checkpoint));
  checkpoint_ = reader.path();
  step_ = reader.step();
  config_ = reader.config(models::families());
  const models::GraphsOfFamily& family = models::graphs_of_family(config_);
  request_ = family.request(config_);
  outputs_ = family.outputs(config_);
  statistics_ = data::read_graphs_statistics(reader.attached("statistics"));
  model_ = models::build_model(config_, {});
  read_weights(*model_, reader);
  // Derivatives are made by autograd, which weights need not take part in.
  for (nn::Parameter* parameter : model_->parameters()) parameter->value.set_requires_grad(false);
  names_ = schedule::batch_tensors_of(schedule::unit_table(config_));
}

const std::vector<std::string>& GraphPredictor::datasets() const { return data::graphs_of(config_).train; }

GraphPrediction GraphPredictor::predict(std::span<const data::Structure> structures, int64_t branch) const {
  TERRACE_CHECK(branch >= 0 && branch < std::ssize(datasets()), "branch {} of {}", branch, datasets().size());
  GraphPrediction result;
  for (const models::GraphOutput& output : outputs_) {
    result.values[output.name];
    result.unlearned[output.name];
    if (output.has_variance) result.deviations[output.name];
  }
  for (size_t begin = 0; begin < structures.size();) {
    size_t end = begin;
    int64_t atoms = 0;
    do {
      atoms += structures[end++].atoms();
    } while (end < structures.size() && atoms + structures[end].atoms() <= most_atoms);
    predict_batch(structures.subspan(begin, end - begin), branch, result);
    begin = end;
  }
  mark_without_volume(structures, result);
  return result;
}

std::string GraphPredictor::units_of(const std::string& output) const {
  const data::LabelStatistics& label = statistics_.labels.at(output);
  const auto requested = std::ranges::find(request_.labels, output, &data::GraphLabel::name);
  const bool is_stress = requested != request_.labels.end() && requested->is_stress;
  return is_stress ? data::unit_of_stress(label.property, label.units) : label.units;
}

void GraphPredictor::mark_without_volume(std::span<const data::Structure> structures, GraphPrediction& result) const {
  for (const data::GraphLabel& label : request_.labels) {
    if (!label.is_stress) continue;
    std::vector<double>& values = result.values.at(label.name);
    const auto width = static_cast<size_t>(label.width);
    for (size_t number = 0; number < structures.size(); ++number) {
      if (data::volume_of(structures[number].cell) > 0) continue;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(number * width), width,
                  std::numeric_limits<double>::quiet_NaN());
    }
  }
}

void GraphPredictor::predict_batch(std::span<const data::Structure> structures, int64_t branch,
                                   GraphPrediction& result) const {
  const size_t dataset = statistics_.find_dataset(datasets().at(static_cast<size_t>(branch))).value_or(0);
  const models::Batch batch =
      models::on_host(data::batch_of(structures, branch, dataset, request_, statistics_, names_));
  const at::NoGradGuard no_grad;
  const models::Outputs outputs = model_->outputs(0, {}, batch, {});
  for (const models::GraphOutput& output : outputs_) {
    append(outputs.at(output.name), result.values[output.name]);
    if (output.has_variance) append(outputs.at(output.name + "_std"), result.deviations[output.name]);
  }
  for (const data::Structure& structure : structures) {
    const std::vector<uint8_t> unknown = statistics_.unknown_elements(structure.species);
    for (const data::GraphLabel& label : request_.labels) {
      const std::vector<double> own =
          statistics_.labels.at(label.name).unlearned(dataset, label.level, label.width, structure.species, unknown);
      std::vector<double>& all = result.unlearned[label.name];
      all.insert(all.end(), own.begin(), own.end());
    }
  }
}

std::vector<std::string> GraphPredictor::unknown_elements(std::span<const data::Structure> structures) const {
  std::set<uint8_t> unknown;
  for (const data::Structure& structure : structures) {
    const std::vector<uint8_t> own = statistics_.unknown_elements(structure.species);
    unknown.insert(own.begin(), own.end());
  }
  std::vector<std::string> symbols;
  for (const uint8_t element : unknown) symbols.emplace_back(data::element_symbol(element));
  return symbols;
}

}  // namespace terrace::predict

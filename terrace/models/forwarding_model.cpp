// One line for each function of a model.
#include "terrace/models/forwarding_model.h"

#include <utility>

#include "terrace/models/key_value_cache.h"

namespace terrace::models {

ForwardingModel::ForwardingModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

std::vector<nn::Parameter*> ForwardingModel::parameters() { return model_->parameters(); }

int64_t ForwardingModel::num_units() const { return model_->num_units(); }

std::vector<nn::Parameter*> ForwardingModel::unit_parameters(int64_t unit) { return model_->unit_parameters(unit); }

std::vector<int64_t> ForwardingModel::used_units(int64_t unit) { return model_->used_units(unit); }

at::Tensor ForwardingModel::forward_unit(int64_t unit, const at::Tensor& hidden, const Batch& batch, const Pass& pass) {
  return model_->forward_unit(unit, hidden, batch, pass);
}

at::Tensor ForwardingModel::loss(const at::Tensor& hidden, const Batch& batch, const Pass& pass) {
  return model_->loss(hidden, batch, pass);
}

at::Tensor ForwardingModel::logits(const at::Tensor& hidden, const Pass& pass) { return model_->logits(hidden, pass); }

std::vector<int64_t> ForwardingModel::hidden_sizes(int64_t unit, const Batch& batch) const {
  return model_->hidden_sizes(unit, batch);
}

at::TensorOptions ForwardingModel::hidden_options() const { return model_->hidden_options(); }

std::vector<double> ForwardingModel::unit_costs() const { return model_->unit_costs(); }

std::vector<double> ForwardingModel::half_costs(int64_t unit) const { return model_->half_costs(unit); }

void ForwardingModel::halve(int64_t unit) { model_->halve(unit); }

double ForwardingModel::step_flops(int64_t sequences) const { return model_->step_flops(sequences); }

int64_t ForwardingModel::activation_bytes(int64_t unit, const ActivationOptions& options) const {
  return model_->activation_bytes(unit, options);
}

int64_t ForwardingModel::weight_input_bytes(int64_t unit, const ActivationOptions& options) const {
  return model_->weight_input_bytes(unit, options);
}

std::unique_ptr<KeyValueCache> ForwardingModel::make_cache(int64_t batch, int64_t length) {
  return model_->make_cache(batch, length);
}

}  // namespace terrace::models

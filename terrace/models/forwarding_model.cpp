// One line for each function of a model.
#include "terrace/models/forwarding_model.h"

#include <utility>

namespace terrace::models {

ForwardingModel::ForwardingModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

std::vector<nn::Parameter*> ForwardingModel::parameters() { return model_->parameters(); }

int64_t ForwardingModel::num_units() const { return model_->num_units(); }

std::vector<nn::Parameter*> ForwardingModel::unit_parameters(int64_t unit) { return model_->unit_parameters(unit); }

at::Tensor ForwardingModel::forward(int64_t begin, int64_t end, const at::Tensor& hidden, const Batch& batch,
                                    const Pass& pass) {
  return model_->forward(begin, end, hidden, batch, pass);
}

at::Tensor ForwardingModel::loss(int64_t begin, const at::Tensor& hidden, const Batch& batch, const Pass& pass) {
  return model_->loss(begin, hidden, batch, pass);
}

std::vector<int64_t> ForwardingModel::hidden_sizes(int64_t unit, const Batch& batch) const {
  return model_->hidden_sizes(unit, batch);
}

at::TensorOptions ForwardingModel::hidden_options() const { return model_->hidden_options(); }

}  // namespace terrace::models

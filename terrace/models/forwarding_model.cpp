// Forwards each function of a model to the wrapped model.
#include "terrace/models/forwarding_model.h"

#include <utility>

namespace terrace::models {

ForwardingModel::ForwardingModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

std::vector<nn::Parameter*> ForwardingModel::parameters() { return model_->parameters(); }

std::vector<nn::Buffer*> ForwardingModel::buffers() { return model_->buffers(); }

int64_t ForwardingModel::num_units() const { return model_->num_units(); }

std::vector<nn::Parameter*> ForwardingModel::unit_parameters(int64_t unit) { return model_->unit_parameters(unit); }

std::vector<nn::Buffer*> ForwardingModel::unit_buffers(int64_t unit) { return model_->unit_buffers(unit); }

Tensors ForwardingModel::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch,
                                 const Pass& pass) {
  return model_->forward(begin, end, input, batch, pass);
}

Tensors ForwardingModel::loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  return model_->loss(begin, input, batch, pass);
}

std::vector<LossTerm> ForwardingModel::losses() const { return model_->losses(); }

std::vector<Tally> ForwardingModel::tallies() const { return model_->tallies(); }

std::vector<std::vector<double>> ForwardingModel::take_tallies() { return model_->take_tallies(); }

void ForwardingModel::end_step(const std::vector<std::vector<double>>& tallies) { model_->end_step(tallies); }

bool ForwardingModel::has_other_leaves() const { return model_->has_other_leaves(); }

Outputs ForwardingModel::outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  return model_->outputs(begin, input, batch, pass);
}

std::vector<TensorShape> ForwardingModel::output_shapes(int64_t unit, const Batch& batch) const {
  return model_->output_shapes(unit, batch);
}

at::Device ForwardingModel::device() const { return model_->device(); }

}  // namespace terrace::models

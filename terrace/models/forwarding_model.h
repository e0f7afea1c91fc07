// A model that wraps another model and forwards every call to it: the base of models that only observe the calls.
#pragma once

#include <memory>
#include <vector>

#include "terrace/models/model.h"

namespace terrace::models {

class ForwardingModel : public Model {
 public:
  explicit ForwardingModel(std::unique_ptr<Model> model);

  std::vector<nn::Parameter*> parameters() override;
  std::vector<nn::Buffer*> buffers() override;
  int64_t num_units() const override;
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  std::vector<nn::Buffer*> unit_buffers(int64_t unit) override;
  Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) override;
  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<LossTerm> losses() const override;
  std::vector<Tally> tallies() const override;
  std::vector<std::vector<double>> take_tallies() override;
  void end_step(const std::vector<std::vector<double>>& tallies) override;
  bool has_other_leaves() const override;
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;
  at::Device device() const override;

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace terrace::models

// A model that wraps another and hands every call on to it: the base of models that only watch what passes through.
#pragma once

#include <memory>
#include <vector>

#include "terrace/models/model.h"

namespace terrace::models {

class ForwardingModel : public Model {
 public:
  explicit ForwardingModel(std::unique_ptr<Model> model);

  std::vector<nn::Parameter*> parameters() override;
  int64_t num_units() const override;
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  std::vector<int64_t> used_units(int64_t unit) override;
  at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const Batch& batch, const Pass& pass) override;
  at::Tensor loss(const at::Tensor& hidden, const Batch& batch, const Pass& pass) override;
  at::Tensor logits(const at::Tensor& hidden, const Pass& pass) override;
  std::vector<int64_t> hidden_sizes(int64_t unit, const Batch& batch) const override;
  at::TensorOptions hidden_options() const override;
  std::vector<double> unit_costs() const override;
  std::vector<double> half_costs(int64_t unit) const override;
  void halve(int64_t unit) override;
  double step_flops(int64_t sequences) const override;
  int64_t activation_bytes(int64_t unit, const ActivationOptions& options) const override;
  int64_t weight_input_bytes(int64_t unit, const ActivationOptions& options) const override;
  std::unique_ptr<KeyValueCache> make_cache(int64_t batch, int64_t length) override;

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace terrace::models

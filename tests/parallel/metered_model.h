// A model that notes how many bytes of tensors are alive whenever a micro-batch comes in.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "terrace/models/key_value_cache.h"
#include "terrace/models/model.h"
#include "tests/ops/memory_meter.h"

namespace terrace::parallel {

class MeteredModel : public models::Model {
 public:
  explicit MeteredModel(std::unique_ptr<models::Model> model) : model_(std::move(model)) {}

  // Where a micro-batch comes in: 0 but on later pipeline stages.
  void set_first_unit(int64_t unit) { first_unit_ = unit; }
  // To be installed, see memory_meter.h; starts anew.
  std::shared_ptr<testing::MemoryMeter> new_meter() {
    alive_.clear();
    return meter_ = std::make_shared<testing::MemoryMeter>();
  }
  // By micro-batch in the order of their forwards, before each.
  const std::vector<int64_t>& alive() const { return alive_; }

  std::vector<nn::Parameter*> parameters() override { return model_->parameters(); }
  int64_t num_units() const override { return model_->num_units(); }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override { return model_->unit_parameters(unit); }
  std::vector<int64_t> used_units(int64_t unit) override { return model_->used_units(unit); }
  at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch,
                          const models::Pass& pass) override {
    if (meter_ != nullptr && unit == first_unit_) alive_.push_back(meter_->now);
    return model_->forward_unit(unit, hidden, batch, pass);
  }
  at::Tensor loss(const at::Tensor& hidden, const models::Batch& batch, const models::Pass& pass) override {
    return model_->loss(hidden, batch, pass);
  }
  at::Tensor logits(const at::Tensor& hidden, const models::Pass& pass) override {
    return model_->logits(hidden, pass);
  }
  std::vector<int64_t> hidden_sizes(int64_t unit, const models::Batch& batch) const override {
    return model_->hidden_sizes(unit, batch);
  }
  at::TensorOptions hidden_options() const override { return model_->hidden_options(); }
  std::vector<double> unit_costs() const override { return model_->unit_costs(); }
  double step_flops(int64_t sequences) const override { return model_->step_flops(sequences); }
  int64_t activation_bytes(int64_t unit, const models::ActivationOptions& options) const override {
    return model_->activation_bytes(unit, options);
  }
  std::unique_ptr<models::KeyValueCache> make_cache(int64_t batch, int64_t length) override {
    return model_->make_cache(batch, length);
  }

 private:
  std::unique_ptr<models::Model> model_;
  int64_t first_unit_ = 0;
  std::shared_ptr<testing::MemoryMeter> meter_;
  std::vector<int64_t> alive_;
};

}  // namespace terrace::parallel

// A model that notes what it computes with and what comes of it, as digests in the order of execution, so that two runs
// can be compared step by step without keeping their activations.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "terrace/models/model.h"

namespace terrace::train {

struct TraceEvent {
  // In words, as it is said to the user.
  enum class What { weight_forward, output, weight_again, output_again, loss, input_gradient, weight_backward };

  int64_t step = 0, micro_batch = 0, unit = 0;
  What what = What::output;
  std::string tensor = {};  // of weights: the parameter's name
  uint64_t digest = 0;

  bool same_place(const TraceEvent& other) const {
    return step == other.step && micro_batch == other.micro_batch && unit == other.unit && what == other.what &&
           tensor == other.tensor;
  }
};

using Trace = std::vector<TraceEvent>;

// Of the elements' bits, in order.
uint64_t digest_of(const at::Tensor& tensor);

// "blocks.1": the words that the names of a unit's parameters begin with; "" for none.
std::string unit_name(models::Model& model, int64_t unit);

class TracedModel : public models::Model {
 public:
  explicit TracedModel(std::unique_ptr<models::Model> model);

  // The first units of the parts that the model is cut into; 0 alone where none are named.
  void set_parts(std::set<int64_t> first_units) { first_units_ = std::move(first_units); }

  void begin_step(int64_t step);
  const Trace& trace() const { return trace_; }
  // Of this step's micro-batches so far.
  const std::vector<double>& losses() const { return losses_; }

  std::vector<nn::Parameter*> parameters() override { return model_->parameters(); }
  int64_t num_units() const override { return model_->num_units(); }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override { return model_->unit_parameters(unit); }
  std::vector<int64_t> used_units(int64_t unit) override { return model_->used_units(unit); }
  at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch,
                          const models::Pass& pass) override;
  at::Tensor loss(const at::Tensor& hidden, const models::Batch& batch, const models::Pass& pass) override;
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
  std::unique_ptr<models::KeyValueCache> make_cache(int64_t batch, int64_t length) override;

 private:
  // Of a unit in this step.
  struct Passes {
    int64_t forwards = 0, without_graph = 0, repeats = 0;
  };

  bool ends_part(int64_t unit) const { return unit + 2 >= num_units() || first_units_.contains(unit + 1); }
  void note(TraceEvent::What what, int64_t micro_batch, int64_t unit, const at::Tensor& tensor, std::string name = "");
  void note_weights(TraceEvent::What what, int64_t micro_batch, int64_t unit);
  void note_backward(const at::Tensor& input, int64_t micro_batch, int64_t unit, bool again);

  std::unique_ptr<models::Model> model_;
  Trace trace_;
  std::vector<double> losses_;
  int64_t step_ = 0;
  std::vector<Passes> passes_;
  std::set<int64_t> first_units_;
};

}  // namespace terrace::train

// A model that notes what it computes with and what comes of it, as digests in the order of execution, so that two runs
// can be compared step by step without keeping their activations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "terrace/models/forwarding_model.h"

namespace terrace::verify {

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

class TracedModel : public models::ForwardingModel {
 public:
  explicit TracedModel(std::unique_ptr<models::Model> model);

  void begin_step(int64_t step);
  const Trace& trace() const { return trace_; }
  // Of this step's micro-batches so far.
  const std::vector<double>& losses() const { return losses_; }

  at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch,
                          const models::Pass& pass) override;
  at::Tensor loss(const at::Tensor& hidden, const models::Batch& batch, const models::Pass& pass) override;

 private:
  // Of a unit in this step.
  struct Passes {
    int64_t forwards = 0, without_graph = 0, repeats = 0;
  };

  void note(TraceEvent::What what, int64_t micro_batch, int64_t unit, const at::Tensor& tensor, std::string name = "");
  void note_weights(TraceEvent::What what, int64_t micro_batch, int64_t unit);
  void note_backward(const at::Tensor& input, int64_t micro_batch, int64_t unit);

  Trace trace_;
  std::vector<double> losses_;
  int64_t step_ = 0;
  std::vector<Passes> passes_;
};

}  // namespace terrace::verify

// Norms of the gradients and weights of single parameters in the last steps, for records of what happened in a step.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/optim/adamw.h"
#include "terrace/parallel/cut_model.h"

namespace terrace::train {

class ParameterNorms {
 public:
  // All arguments outlive the object.
  ParameterNorms(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer);

  // Notes this rank's part of the norms of the summed gradients, which are multiplied by `multiplier`, of a step.
  // Called before the update; costs a pass over the gradients.
  void note_gradients(int64_t step, double multiplier);

  // The whole model's norms by parameter, in the order of names().
  struct OfStep {
    int64_t step = 0;
    std::vector<double> gradients = {};
  };
  // Norms of the gradients of the noted steps, of which the last three are kept, the latest last. Called by all ranks
  // together.
  std::vector<OfStep> gradients() const { return summed({noted_.begin(), noted_.end()}); }
  // Norms of the gradients of the latest noted step. Called by all ranks together.
  OfStep latest_gradients() const { return summed({noted_.back()}).front(); }
  // The norms of the weights. Called by all ranks together.
  std::vector<double> weights() const;

  std::vector<std::string> names() const;

 private:
  std::vector<double> own_squares(at::Tensor (*of)(const optim::AdamW::State&)) const;
  std::vector<OfStep> summed(std::vector<OfStep> squares) const;

  models::Model& model_;
  parallel::CutModel& cut_;
  optim::AdamW& optimizer_;
  std::unordered_map<const nn::Parameter*, size_t> places_;
  std::deque<OfStep> noted_;  // squares of this rank's elements
};

}  // namespace terrace::train

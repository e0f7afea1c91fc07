// Local steps: each copy of the optimizer states trains by itself, and every H steps all copies are brought together by
// an outer update with the mean of their differences (DiLoCo: Douillard et al., arXiv 2311.08105, algorithm 1; local
// SGD: Stich, arXiv 1805.09767). Between these steps nothing travels between the copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/optim/adamw.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/sharded.h"
#include "terrace/parallel/wire_format.h"

namespace terrace::parallel {

// With the weights w_r of copy r of R, the common weights a of the last outer update, the momentum b, which begins at
// zero, the rate n and the decay rate u of the momentum, all in fp32 and element by element:
//
//     d = sum over r of (a - w_r) / R    b' = u b + d    a' = a - n (d + u b')    w_r' = a'
//
// This is PyTorch's SGD with nesterov = True on the gradient d. The sum is taken in ascending order of the ranks, in
// the wire format of layout.outer_type. Moments of AdamW stay those of each copy. With n = 1 and u = 0 the copies
// continue from the mean of their weights, up to the rounding of a - (a - w).
class OuterSteps {
 public:
  // The tensors of one optimizer state, [n] fp32 each.
  struct State {
    at::Tensor anchor, momentum;  // a and b
  };

  // The present masters of `optimizer` are the common weights. All arguments outlive the object.
  OuterSteps(Sharded& sharded, optim::AdamW& optimizer, DataGroups& groups, const config::Config& config);

  // Whether an outer update follows this step.
  bool follows(int64_t step) const { return step % every_ == 0; }
  // Makes the outer update after a step: the masters are the common weights, and published. What is rounded at
  // random draws from (seed, step, segment, data-parallel rank, element). Every rank of the replicas calls it.
  void update(uint64_t seed, int64_t step);

  // By optimizer state, in the order of optim::AdamW::states(). Filling the tensors restores a state.
  std::vector<State>& states() { return states_; }
  // Takes the present masters as the common weights, with a momentum of zero.
  void begin_at_masters();

 private:
  Sharded& sharded_;
  optim::AdamW& optimizer_;
  DataGroups& groups_;
  std::shared_ptr<const WireFormat> format_;
  int64_t every_;
  double learning_rate_, momentum_;
  std::vector<State> states_;
};

}  // namespace terrace::parallel

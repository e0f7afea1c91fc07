// Says when the stages of a pipeline post their receives.
#pragma once

namespace terrace::schedule {

// The time when receives are posted. In the times below, forwards, input gradients and weight gradients each take one
// unit.
enum class Posting {
  // Receives are posted at least one computation before the one that takes the tensor, and before the computation that
  // runs when the tensor is made.
  early,
  // Never before `early`, and as late as a device needs that at any computation may first wait for all transfers that
  // it has begun: a GPU does so where it loads a kernel or frees memory. Take all computations in the order of their
  // end times, those that end together by their stages. A receive comes before the first computation of its stage that
  // follows the making of the tensor in this order. So where a stage begins a computation, both ends of each transfer
  // that it has begun come before that computation in the order, and none of them waits for it.
  careful,
};

}  // namespace terrace::schedule

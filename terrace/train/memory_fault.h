// Bits that are flipped on purpose in the memory of a rank, for tests of what finds them. comm/fault.h has the faults
// of calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "terrace/optim/adamw.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/sharded.h"

namespace terrace::train {

struct MemoryFault {
  enum class Place {
    weight,          // before the step's first forward, in the rank's part of the weights
    first_moment,    // before the step's first forward
    second_moment,   // before the step's first forward
    activation,      // in the first output of a segment of the step's first micro-batch, when its forward is done
    gradient,        // when the first micro-batch's gradient is complete on the rank, before anything is summed
    summed_gradient  // when gradients are summed over micro-batches and ranks, in the rank's part of them
  };

  Place place = Place::weight;
  int64_t rank = 0, step = 1;
  std::string parameter = {};  // of all places but activation
  int64_t segment = 0;         // of an activation
  int64_t element = 0;         // of what the rank holds of the parameter, or of the activation
  int bit = 0;                 // of the element, from its lowest one
  // A check computes micro-batches several times in a step. The bit is flipped from this time on, counted from 1, so
  // many times.
  int64_t first_time = 1, times = 1;
};

// Flips a bit of an element of a contiguous tensor in the memory of the host.
void flip_bit(const at::Tensor& tensor, int64_t element, int bit);

// The faults of one rank.
class MemoryFaults {
 public:
  MemoryFaults() = default;
  MemoryFaults(const std::vector<MemoryFault>& faults, int64_t rank);

  void begin_step(int64_t step) {
    step_ = step;
    met_.clear();
  }
  // Flip the bits of this step's faults in these places. Abort where the rank holds nothing of the parameter.
  void flip_states(const parallel::Sharded& sharded, optim::AdamW& optimizer) const;
  void flip_activation(int64_t segment, const at::Tensor& output) const;
  void flip_gradients(const std::vector<nn::Parameter*>& parameters) const;
  void flip_summed_gradients(const std::vector<optim::Shard>& shards) const;

 private:
  // The faults that are due now in the place and, if one is given, the segment or parameter.
  std::vector<MemoryFault> due(MemoryFault::Place place, int64_t segment, const std::string& parameter) const;

  std::vector<MemoryFault> faults_;
  int64_t step_ = 0;
  mutable std::map<size_t, int64_t> met_ = {};  // how often each fault's place was met in the step
};

}  // namespace terrace::train

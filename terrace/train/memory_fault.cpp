// Finds the tensors of a fault by place and parameter, and flips the bits.
#include "terrace/train/memory_fault.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::train {
namespace {

// Flips the bit in the piece of the fault's parameter.
void flip_in(const at::Tensor& tensor, const std::vector<optim::ShardPiece>& pieces, const MemoryFault& fault,
             bool& done) {
  for (const optim::ShardPiece& piece : pieces) {
    if (piece.parameter->name != fault.parameter) continue;
    flip_bit(tensor.narrow(0, piece.at, piece.size()), fault.element, fault.bit);
    done = true;
  }
}

}  // namespace

void flip_bit(const at::Tensor& tensor, int64_t element, int bit) {
  TERRACE_CHECK(tensor.is_cpu() && element < tensor.numel(), "no element {} of {}", element, tensor.numel());
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr()) + element * tensor.element_size() + bit / 8;
  *bytes = static_cast<unsigned char>(*bytes ^ 1 << bit % 8);
}

MemoryFaults::MemoryFaults(const std::vector<MemoryFault>& faults, int64_t rank) : faults_(faults) {
  std::erase_if(faults_, [rank](const MemoryFault& fault) { return fault.rank != rank; });
}

std::vector<MemoryFault> MemoryFaults::due(MemoryFault::Place place, int64_t segment,
                                           const std::string& parameter) const {
  std::vector<MemoryFault> own;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const MemoryFault& fault = faults_[i];
    if (fault.place != place || fault.step != step_) continue;
    if (segment >= 0 && fault.segment != segment) continue;
    if (!parameter.empty() && fault.parameter != parameter) continue;
    const int64_t time = ++met_[i];
    if (time >= fault.first_time && time < fault.first_time + fault.times) own.push_back(fault);
  }
  return own;
}

void MemoryFaults::flip_states(const parallel::Sharded& sharded, optim::AdamW& optimizer) const {
  using Place = MemoryFault::Place;
  for (const MemoryFault& fault : due(Place::weight, -1, "")) {
    bool done = false;
    for (const parallel::HeldWeights& held : sharded.held_weights()) flip_in(held.weights, held.pieces, fault, done);
    TERRACE_CHECK(done, "rank {} holds nothing of {}", fault.rank, fault.parameter);
  }
  for (const Place place : {Place::first_moment, Place::second_moment}) {
    for (const MemoryFault& fault : due(place, -1, "")) {
      bool done = false;
      for (const optim::AdamW::State& state : optimizer.states()) {
        flip_in(place == Place::first_moment ? state.m : state.v, state.shard.pieces, fault, done);
      }
      TERRACE_CHECK(done, "rank {} holds nothing of {}", fault.rank, fault.parameter);
    }
  }
}

void MemoryFaults::flip_activation(int64_t segment, const at::Tensor& output) const {
  for (const MemoryFault& fault : due(MemoryFault::Place::activation, segment, "")) {
    flip_bit(output, fault.element, fault.bit);
  }
}

void MemoryFaults::flip_gradients(const std::vector<nn::Parameter*>& parameters) const {
  for (const nn::Parameter* parameter : parameters) {
    for (const MemoryFault& fault : due(MemoryFault::Place::gradient, -1, parameter->name)) {
      flip_bit(parameter->gradient, fault.element, fault.bit);
    }
  }
}

void MemoryFaults::flip_summed_gradients(const std::vector<optim::Shard>& shards) const {
  for (const MemoryFault& fault : due(MemoryFault::Place::summed_gradient, -1, "")) {
    bool done = false;
    for (const optim::Shard& shard : shards) flip_in(shard.gradient, shard.pieces, fault, done);
    TERRACE_CHECK(done, "rank {} holds nothing of {}", fault.rank, fault.parameter);
  }
}

}  // namespace terrace::train

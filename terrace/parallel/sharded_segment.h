// Holds the parameters of one type of a segment in flat buffers, of which each data-parallel rank keeps its parts.
//
// A flat buffer contains the parameters one after another, each at a multiple of the alignment. The end is padded so
// that every rank's part is a whole number of norm pieces. Gaps and padding are zeros.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/mesh/shards.h"
#include "terrace/nn/module.h"
#include "terrace/optim/shard.h"

namespace terrace::parallel {

class ShardedSegment {
 public:
  // The parameters have one type. Makes the parameters' values and gradients views of flat buffers on the device; the
  // previous contents of the values, if they had memory, are lost. If `keeps_whole_gradient`, the whole gradient keeps
  // its memory; otherwise it has memory from take to release only. `alignment` is in elements.
  ShardedSegment(std::vector<nn::Parameter*> parameters, const mesh::ShardPlace& place, at::Device device,
                 at::ScalarType gradient_type, bool keeps_whole_gradient, int64_t alignment);

  const std::vector<nn::Parameter*>& parameters() const { return parameters_; }
  int64_t padded() const { return padded_; }

  // Whole buffers [padded]. Sharded whole weights, and a whole gradient that is not kept, have memory between take and
  // release only (storage.h).
  const at::Tensor& whole_weights() const { return whole_weights_; }
  const at::Tensor& whole_gradient() const { return whole_gradient_; }
  bool cuts_weights() const { return place_.weights.parts > 1; }
  bool keeps_whole_gradient() const { return keeps_whole_gradient_; }
  // Lets all of it count as zero; `poison` as in nn::clear_gradient().
  void clear_whole_gradient(bool poison) const;

  // This rank's parts of the weights and of the summed gradient, which always have memory.
  const at::Tensor& weights() const { return weights_; }
  const at::Tensor& gradient() const { return gradient_; }
  at::Tensor optimizer_gradient() const;
  at::Tensor own_gradient() const;
  at::Tensor optimizer_weights() const;

  optim::Shard shard() const;
  // The pieces of the parameters in a part of the flat buffers; they are counted from the beginning of the part.
  std::vector<optim::ShardPiece> pieces_in(const mesh::Part& part) const;

 private:
  std::vector<int64_t> place_parameters(int64_t alignment) const;
  at::Tensor view_of(const at::Tensor& flat, size_t parameter) const;

  std::vector<nn::Parameter*> parameters_;
  mesh::ShardPlace place_;
  bool keeps_whole_gradient_;
  std::vector<int64_t> offsets_;  // of the parameters, and the end of the last one
  int64_t padded_;
  at::Tensor whole_weights_, weights_, whole_gradient_, gradient_;
};

}  // namespace terrace::parallel

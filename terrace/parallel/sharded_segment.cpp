// Allocates the flat buffers and makes the views of them.
#include "terrace/parallel/sharded_segment.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/optim/kernels.h"
#include "terrace/parallel/storage.h"

namespace terrace::parallel {
namespace {

// The elements of `inner`, which is inside `outer`, in a buffer that holds the elements of `outer`.
at::Tensor part_of(const at::Tensor& buffer, const mesh::Part& outer, const mesh::Part& inner, int64_t padded) {
  return buffer.narrow(0, inner.begin(padded) - outer.begin(padded), inner.size(padded));
}

}  // namespace

std::vector<int64_t> ShardedSegment::place_parameters(int64_t alignment) const {
  std::vector<int64_t> offsets = {0};
  for (const nn::Parameter* parameter : parameters_) {
    TERRACE_CHECK(parameter->value.scalar_type() == parameters_.front()->value.scalar_type(), "{} has another type",
                  parameter->name);
    offsets.push_back((offsets.back() + parameter->value.numel() + alignment - 1) / alignment * alignment);
  }
  return offsets;
}

at::Tensor ShardedSegment::view_of(const at::Tensor& flat, size_t parameter) const {
  const at::Tensor& value = parameters_[parameter]->value;
  return flat.narrow(0, offsets_[parameter], value.numel()).view(value.sizes());
}

ShardedSegment::ShardedSegment(std::vector<nn::Parameter*> parameters, const mesh::ShardPlace& place, at::Device device,
                               at::ScalarType gradient_type, bool keeps_whole_gradient, int64_t alignment)
    : parameters_(std::move(parameters)),
      place_(place),
      keeps_whole_gradient_(keeps_whole_gradient),
      offsets_(place_parameters(alignment)),
      padded_(mesh::padded_size(offsets_.back(), place.sizes.ranks, optim::norm_piece)) {
  const at::NoGradGuard no_grad;
  TERRACE_CHECK(!parameters_.empty(), "a segment without parameters");
  const auto options = at::TensorOptions().device(device).dtype(parameters_.front()->value.scalar_type());
  for (nn::Parameter* parameter : parameters_) {
    if (!parameter->value.is_meta()) release_storage(parameter->value);
  }
  // A buffer that is released below is not initialized, since only touched pages take memory of the machine.
  const auto buffer = [&](bool stays, const at::TensorOptions& of) {
    return stays ? at::zeros({padded_}, of) : at::empty({padded_}, of);
  };
  whole_weights_ = buffer(!cuts_weights(), options);
  weights_ = cuts_weights() ? at::zeros({place_.weights.size(padded_)}, options) : whole_weights_;
  whole_gradient_ = buffer(keeps_whole_gradient_, options.dtype(gradient_type));
  gradient_ = keeps_whole_gradient_ ? part_of(whole_gradient_, {}, place_.gradients, padded_)
                                    : at::zeros({place_.gradients.size(padded_)}, options.dtype(gradient_type));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    nn::Parameter& parameter = *parameters_[i];
    // A view with its own version counter, so that autograd does not take a refill of the buffer for a change in place.
    at::Tensor value = view_of(whole_weights_, i).variable_data();
    value.set_requires_grad(parameter.value.requires_grad());
    parameter.gradient = view_of(whole_gradient_, i);
    parameter.value = value;
  }
  if (cuts_weights()) release_storage(whole_weights_);
  if (!keeps_whole_gradient_) release_storage(whole_gradient_);
}

void ShardedSegment::clear_whole_gradient(bool poison) const {
  int64_t at = 0;  // what is not zeroed yet
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->gradient_holds_sum) continue;
    whole_gradient_.narrow(0, at, offsets_[i] - at).zero_();
    nn::clear_gradient(*parameters_[i], poison);
    at = offsets_[i] + parameters_[i]->value.numel();
  }
  whole_gradient_.narrow(0, at, padded_ - at).zero_();
}

at::Tensor ShardedSegment::optimizer_gradient() const {
  return part_of(gradient_, place_.gradients, place_.optimizer, padded_);
}

at::Tensor ShardedSegment::own_gradient() const { return part_of(gradient_, place_.gradients, place_.own, padded_); }

at::Tensor ShardedSegment::optimizer_weights() const {
  return part_of(weights_, place_.weights, place_.optimizer, padded_);
}

optim::Shard ShardedSegment::shard() const {
  const int64_t first = place_.optimizer.begin(padded_);
  optim::Shard shard{.gradient = optimizer_gradient(),
                     .value = optimizer_weights(),
                     .own_begin = place_.own.begin(padded_) - first,
                     .own_end = place_.own.begin(padded_) - first + place_.own.size(padded_),
                     .pieces = pieces_in(place_.optimizer)};
  return shard;
}

std::vector<optim::ShardPiece> ShardedSegment::pieces_in(const mesh::Part& part) const {
  const int64_t first = part.begin(padded_), size = part.size(padded_);
  std::vector<optim::ShardPiece> pieces;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int64_t begin = offsets_[i], end = begin + parameters_[i]->value.numel();
    const int64_t from = std::max(begin, first), to = std::min(end, first + size);
    if (from < to) pieces.push_back({parameters_[i], from - begin, to - begin, from - first});
  }
  return pieces;
}

}  // namespace terrace::parallel

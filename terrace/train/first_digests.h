// Digests of what a rank computes from the first micro-batch of a step, which another rank can compute again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/models/model.h"

namespace terrace::train {

class FirstDigests {
 public:
  // `last` is the number of the model's last segment.
  explicit FirstDigests(int64_t last) : last_(last) {}

  void clear() { digests_.clear(); }
  void note_forward(int64_t segment, const models::Tensors& outputs) { note({segment, 0}, outputs); }
  void note_loss(const models::Tensors& losses) { note({last_, 1}, losses); }
  void note_backward(int64_t segment, const models::Tensors& input_gradients) {
    note({2 * last_ - segment, 2}, input_gradients);
  }
  // The gradients of a segment's parameters, when they are complete and have no part of other micro-batches.
  void note_gradients(int64_t segment, const std::vector<nn::Parameter*>& parameters);

  // In the order in which a model on one stage computes them.
  std::vector<uint64_t> values() const;
  // The position of a value in this order over all stages, so that an earlier one may be the cause of later ones.
  int64_t position_of(size_t value) const;
  // "the forward of segment 3".
  std::string text_of(size_t value) const;

 private:
  using Key = std::pair<int64_t, int64_t>;  // place in the order, and what was computed there
  void note(Key key, const models::Tensors& tensors);
  Key key_of(size_t value) const;

  int64_t last_;
  std::map<Key, uint64_t> digests_;
};

}  // namespace terrace::train

// Defines a trained tensor as operations see it, and the queue of deferred weight gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "terrace/ops/products/product_choice.h"

namespace terrace::ops {

struct Cut;

// `value` takes part in autograd only so that backward reaches the operation. The operation itself adds
// d loss / d value to `gradient`, whose type may be wider, and leaves value.grad() undefined. If `gradient` is
// undefined (evaluation, a frozen weight), no gradient is computed. Both tensors are undefined for a layer without
// bias. With a `cut`, value and gradient are this rank's part of the weight.
struct Weight {
  at::Tensor value;
  at::Tensor gradient;
  ProductChoice products = {};
  const Cut* cut = nullptr;  // owned by the code that cut the model
  // False while the gradient counts as zero although its memory may hold anything: what comes first is then stored
  // instead of added, which saves writing zeros and reading them. Null: it always holds a sum.
  std::shared_ptr<bool> gradient_holds_sum = {};
};

// Whether an operation that is about to add to the gradient must store instead. Afterwards there is a sum.
inline bool begins_sum(const std::shared_ptr<bool>& holds_sum) {
  return holds_sum != nullptr && !std::exchange(*holds_sum, true);
}

// Weight gradients that backward deferred: a zero-bubble pipeline computes them while it would wait. The sums have the
// same bits as without deferral, since the queue keeps the order of the additions to each buffer.
class WeightGradientQueue {
 public:
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }
  size_t size() const { return work_.size(); }

  // Computes the deferred gradients in the order in which they were pushed, and leaves the queue empty.
  void run() {
    for (const auto& work : std::exchange(work_, {})) work();
  }

 private:
  std::vector<std::function<void()>> work_;
};

// Pushes the computation of a weight gradient to the queue, or runs it at once if `deferred` is null.
template <typename Function>
void run_or_defer(WeightGradientQueue* deferred, Function work) {
  if (deferred != nullptr) {
    deferred->push(std::move(work));
  } else {
    work();
  }
}

}  // namespace terrace::ops

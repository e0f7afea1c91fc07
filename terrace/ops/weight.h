// A trained tensor as an operation sees it, and the queue of weight gradients that are computed later.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace terrace::ops {

struct Cut;

// Who computes products of matrices on a CPU. Both are exact to rounding; the choice decides the last bits.
enum class Products {
  torch,
  own,  // where the processor has the instructions for the type, else torch
};

// `value` takes part in autograd only so that backward reaches the operation, which itself adds d loss / d value to
// `gradient` (its type may be wider) and leaves value.grad() alone. Where `gradient` is undefined (evaluation, a frozen
// weight) nothing is computed for it. Both are undefined for a bias that is not there. With a `cut`, value and gradient
// are this rank's part.
struct Weight {
  at::Tensor value;
  at::Tensor gradient;
  Products products = Products::own;
  const Cut* cut = nullptr;  // owned by whoever cut the model
};

// Weight gradients put off by backward: a zero-bubble pipeline runs them where it would wait. The sums are the same to
// the last bit, as each is added to its own buffer in the order of the queue.
class WeightGradientQueue {
 public:
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }
  size_t size() const { return work_.size(); }

  // Computes what was pushed, in order, and leaves the queue empty.
  void run() {
    for (const auto& work : std::exchange(work_, {})) work();
  }

 private:
  std::vector<std::function<void()>> work_;
};

// Does the work of a weight gradient now, or leaves it to the queue where there is one.
template <typename Function>
void now_or_later(WeightGradientQueue* deferred, Function work) {
  if (deferred != nullptr) {
    deferred->push(std::move(work));
  } else {
    work();
  }
}

}  // namespace terrace::ops

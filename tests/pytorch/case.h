// One equivalence case: the inputs as autograd leaves or as weights with a gradient buffer, the run and the judgement.
#pragma once

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "terrace/ops/weight.h"
#include "tests/pytorch/reference.h"

namespace terrace::testing {

// The tensors from which a case reads its inputs.
class Leaves {
 public:
  explicit Leaves(const Tensors& inputs) {
    for (const auto& [name, tensor] : inputs) {
      leaves_[name] = tensor.clone();
      if (tensor.is_floating_point()) leaves_[name].set_requires_grad(true);
    }
  }

  // Undefined where there is no such input.
  at::Tensor tensor(const std::string& name) const { return leaves_.contains(name) ? leaves_.at(name) : at::Tensor(); }

  // The input as a weight with a gradient buffer in fp32, or in double for double.
  ops::Weight weight(const std::string& name) {
    if (!leaves_.contains(name)) return {};
    const at::Tensor& value = leaves_.at(name);
    const auto type = value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    sinks_[name] = at::zeros(value.sizes(), value.options().dtype(type).requires_grad(false));
    return {value, sinks_[name]};
  }

  at::Tensor gradient(const std::string& name) const {
    if (sinks_.contains(name)) {
      EXPECT_FALSE(leaves_.at(name).grad().defined()) << name << " has a gradient in autograd too";
      return sinks_.at(name);
    }
    const at::Tensor& leaf = leaves_.at(name);
    return leaf.grad().defined() ? leaf.grad() : at::zeros(leaf.sizes(), leaf.options().requires_grad(false));
  }

 private:
  Tensors leaves_, sinks_;
};

using Operation = std::function<Tensors(Leaves&)>;

// Our results and gradients: backward from every result r with an "upstream.r". A result "loss" scales its gradients
// itself and is differentiated with 1.
inline Tensors results_of(const Operation& operation, const Tensors& inputs) {
  Leaves leaves(inputs);
  Tensors results = operation(leaves);
  std::vector<at::Tensor> roots, upstream;
  for (const auto& [name, result] : results) {
    if (!inputs.contains("upstream." + name)) continue;
    roots.push_back(result);
    upstream.push_back(name == "loss" ? at::ones_like(result) : inputs.at("upstream." + name));
  }
  if (!roots.empty()) torch::autograd::backward(roots, upstream);
  for (const auto& [name, tensor] : inputs) {
    if (tensor.is_floating_point() && !name.starts_with("upstream.")) {
      results["gradient." + name] = leaves.gradient(name);
    }
  }
  return results;
}

}  // namespace terrace::testing

// Differentiates energies, and sums over edges.
#include "terrace/models/gnn/derivatives.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

namespace terrace::models::gnn {

at::Tensor gradient_by_vectors(const at::Tensor& energies, const at::Tensor& vectors) {
  const auto none = [&] { return at::zeros_like(vectors, vectors.options().requires_grad(false)); };
  if (!energies.requires_grad()) return none();
  const auto gradients = torch::autograd::grad({energies.sum()}, {vectors}, {}, /*retain_graph=*/true,
                                               /*create_graph=*/true, /*allow_unused=*/true);
  return gradients.front().defined() ? gradients.front() : none();
}

at::Tensor forces_of(const at::Tensor& gradient, const Graphs& graphs) {
  if (graphs.pairs.mutual()) {
    // An atom sends what it receives, against its direction.
    const at::Tensor of_atoms = at::ones({graphs.atoms, 1}, gradient.options().requires_grad(false));
    const at::Tensor of_pairs = at::ones({gradient.size(0), 1}, of_atoms.options());
    return ops::directed_sum(of_atoms, of_pairs, gradient, graphs.pairs).squeeze(2);
  }
  return ops::segment_sum(gradient, graphs.receivers).sub(ops::segment_sum(gradient, graphs.senders));
}

at::Tensor stress_of(const at::Tensor& gradient, const at::Tensor& vectors, const at::Tensor& volumes,
                     const Graphs& graphs) {
  const at::Tensor outer = gradient.unsqueeze(2).mul(vectors.to(gradient.scalar_type()).unsqueeze(1));  // [E, 3, 3]
  const at::Tensor symmetric = outer.add(outer.transpose(1, 2)).mul(0.5).reshape({outer.size(0), 9});
  return ops::segment_sum(symmetric, graphs.pairs_of_graphs()).div(volumes.to(gradient.scalar_type()).unsqueeze(1));
}

}  // namespace terrace::models::gnn

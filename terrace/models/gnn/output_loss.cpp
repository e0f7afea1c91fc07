// Computes losses and errors of outputs.
#include "terrace/models/gnn/output_loss.h"

#include <ATen/ops/huber_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

namespace terrace::models::gnn {
namespace {

// The loss of each value, as torch's GaussianNLLLoss and HuberLoss have it.
at::Tensor loss_of_values(const OutputConfig& output, const at::Tensor& error, const at::Tensor& variance) {
  if (output.uncertain) return variance.log().add(error.square().div(variance)).mul(0.5);
  switch (output.loss) {
    case LossKind::mse:
      return error.square();
    case LossKind::mae:
      return error.abs();
    case LossKind::huber:
      break;
  }
  return at::huber_loss(error, at::zeros_like(error, error.options().requires_grad(false)), at::Reduction::None, 1.0);
}

}  // namespace

OutputTerms output_terms(const OutputConfig& output, const Value& value, const Batch& batch, const Graphs& graphs) {
  const at::TensorOptions options = value.mean.options().requires_grad(false);
  at::Tensor error = value.mean.sub(batch["targets." + output.name].to(options));  // [R, C]
  at::Tensor variance = value.variance;
  if (output.per_atom) {
    const at::Tensor atoms = graphs.atom_counts(options).clamp_min(1.0);
    error = error.div(atoms);
    if (variance.defined()) variance = variance.div(atoms.square());
  }
  at::Tensor labelled = batch["labelled." + output.name].to(options).unsqueeze(1);
  if (output.of_atoms()) labelled = labelled.index_select(0, graphs.of_atoms.rows);
  const at::Tensor in_units = error.detach().mul(batch["scales." + output.name].to(options)).mul(labelled);
  return {.loss = loss_of_values(output, error, variance).mul(labelled).sum(),
          .figures = at::stack({in_units.abs().sum(), in_units.square().sum()}).to(at::kFloat)};
}

void add_in_data_units(const OutputConfig& output, const Value& value, const Batch& batch, Outputs& outputs) {
  const at::Tensor &scale = batch["scales." + output.name], &offset = batch["offsets." + output.name];
  outputs[output.name] = value.mean.detach().to(at::kDouble).mul(scale).add(offset);
  if (value.variance.defined()) {
    outputs[output.name + "_std"] = value.variance.detach().to(at::kDouble).sqrt().mul(scale);
  }
}

}  // namespace terrace::models::gnn

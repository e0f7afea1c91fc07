// Computes losses and errors of outputs.
#include "terrace/models/gnn/output_loss.h"

#include <ATen/ops/huber_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <vector>

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

// The sum of all numbers of x [R, C], the same for any number of threads, among which torch shares out a sum of more
// than 32,768 numbers to one.
at::Tensor sum_of_all(const at::Tensor& x) {
  constexpr int64_t most_rows = 16'384;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& rows : x.sum(1).split(most_rows)) sums.push_back(rows.sum());
  return sums.size() == 1 ? sums.front() : at::stack(sums).sum();
}

// The sum over the columns of x [R, C] of the largest less the least number in labelled rows; 0 without such rows.
at::Tensor spread_of(const at::Tensor& x, const at::Tensor& labelled) {
  if (x.size(0) == 0) return x.new_zeros({});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor left_out = labelled.eq(0);  // [R, 1]
  const at::Tensor high = x.masked_fill(left_out, -infinity).amax(0), low = x.masked_fill(left_out, infinity).amin(0);
  return high.sub(low).clamp_min(0.0).sum();
}

}  // namespace

OutputTerms output_terms(const OutputConfig& output, const OutputPrediction& value, const Batch& batch,
                         const Graphs& graphs) {
  const at::TensorOptions options = value.mean.options().requires_grad(false);
  at::Tensor given = value.mean.detach(), label = batch["targets." + output.name].to(options);  // [R, C]
  at::Tensor error = value.mean.sub(label);
  at::Tensor variance = value.variance;
  if (output.per_atom) {
    const at::Tensor atoms = graphs.atom_counts(options).clamp_min(1.0);
    error = error.div(atoms);
    given = given.div(atoms);
    label = label.div(atoms);
    if (variance.defined()) variance = variance.div(atoms.square());
  }
  const at::Tensor labelled = batch["labelled." + output.name].to(options);  // [R, C]
  const at::Tensor in_units = error.detach().mul(batch["scales." + output.name].to(options)).mul(labelled);
  return {.loss = sum_of_all(loss_of_values(output, error, variance).mul(labelled)),
          .figures = at::stack({sum_of_all(in_units.abs()), sum_of_all(in_units.square()), spread_of(given, labelled),
                                spread_of(label, labelled)})
                         .to(at::kFloat)};
}

void add_in_data_units(const OutputConfig& output, const OutputPrediction& value, const Batch& batch,
                       Outputs& outputs) {
  const at::Tensor &scale = batch["scales." + output.name], &offset = batch["offsets." + output.name];
  outputs[output.name] = value.mean.detach().to(at::kDouble).mul(scale).add(offset);
  if (value.variance.defined()) {
    outputs[output.name + "_std"] = value.variance.detach().to(at::kDouble).sqrt().mul(scale);
  }
}

}  // namespace terrace::models::gnn

// Sums over the rows of all ranks, in forward and in backward.
#include "terrace/ops/elements/batch_norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

struct RowNormArguments {
  double epsilon = 0;
  Ranks* ranks = nullptr;
};

at::Tensor over_ranks(at::Tensor sums, Ranks* ranks, const char* what) {
  if (ranks != nullptr) ranks->sum(sums, what)->wait();
  return sums;
}

at::Tensor sum_of_rows(const at::Tensor& x) { return x.sum(0, /*keepdim=*/false, at::kDouble); }

// `centred` is x less the mean in the type of x.
RowStatistics row_statistics(const at::Tensor& x, Ranks* ranks, at::Tensor& centred) {
  const int64_t columns = x.size(1);
  const at::Tensor own_rows = at::full({1}, static_cast<double>(x.size(0)), x.options().dtype(at::kDouble));
  const at::Tensor sums = over_ranks(at::cat({sum_of_rows(x), own_rows}), ranks, "sum rows");
  RowStatistics statistics{.rows = sums.narrow(0, columns, 1), .mean = {}, .variance = {}};
  const at::Tensor divisor = statistics.rows.clamp_min(1.0);
  statistics.mean = sums.narrow(0, 0, columns).div(divisor);
  const at::Tensor rounded = statistics.mean.to(x.scalar_type());
  centred = x.sub(rounded);
  const at::Tensor squares = over_ranks(sum_of_rows(centred.square()), ranks, "sum squares of rows");
  // The deviations are from the rounded mean.
  statistics.variance = squares.div(divisor).sub(statistics.mean.sub(rounded).square()).clamp_min(0.0);
  return statistics;
}

class RowNormFunction : public torch::autograd::Function<RowNormFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                const RowNormArguments& arguments) {
    at::Tensor centred;
    const RowStatistics statistics = row_statistics(x, arguments.ranks, centred);
    const at::Tensor inverse = statistics.variance.add(arguments.epsilon).rsqrt().to(x.scalar_type());
    const at::Tensor y = centred.mul_(inverse);
    context->save_for_backward({y, inverse, statistics.rows});
    context->mark_non_differentiable({statistics.rows, statistics.mean, statistics.variance});
    save_object(context, "arguments", arguments);
    return {y, statistics.rows, statistics.mean, statistics.variance};
  }

  // dx = (dy - mean of dy - y mean of (dy y)) / deviation, with means over the rows of all ranks.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("normalized_rows");
    const auto saved = context->get_saved_variables();
    const at::Tensor &y = saved[0], &inverse = saved[1], &rows = saved[2], &dy = gradients[0];
    Ranks* ranks = saved_object<RowNormArguments>(context, "arguments").ranks;
    const at::Tensor sums =
        over_ranks(at::cat({sum_of_rows(dy), sum_of_rows(dy.mul(y))}), ranks, "sum gradients of rows");
    const at::Tensor means = sums.div(rows.clamp_min(1.0)).to(y.scalar_type());
    const at::Tensor of_dy = means.narrow(0, 0, y.size(1)), of_products = means.narrow(0, y.size(1), y.size(1));
    return {dy.sub(of_dy).sub_(y.mul(of_products)).mul_(inverse), {}};
  }
};

}  // namespace

NormalizedRows normalized_rows(const at::Tensor& x, double epsilon, Ranks* ranks) {
  const auto results = RowNormFunction::apply(x, RowNormArguments{epsilon, ranks});
  return {.x = results[0], .statistics = {.rows = results[1], .mean = results[2], .variance = results[3]}};
}

}  // namespace terrace::ops

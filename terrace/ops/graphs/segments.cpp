// Gather and segment sum are the adjoints of each other, so each one's backward is the other one; of both in one it is
// the same with both ends exchanged.
#include "terrace/ops/graphs/segments.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x [E, ..] -> [E, D].
at::Tensor columns_of(const at::Tensor& x) {
  return x.contiguous().view({x.size(0), c10::multiply_integers(x.sizes().slice(1))});
}

class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Segments& segments) {
    save_object(context, "segments", segments);
    return at::index_select(x, 0, segments.rows);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {segment_sum(gradients[0], saved_object<Segments>(context, "segments")), {}};
  }
};

class SegmentSumFunction : public torch::autograd::Function<SegmentSumFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Segments& segments) {
    save_object(context, "segments", segments);
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.front() = segments.num_rows();
    const at::Tensor sums = at::empty(sizes, x.options());
    kernels(x.device()).sum_segments(columns_of(x), segments.order, segments.first, columns_of(sums));
    return sums;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gather(gradients[0], saved_object<Segments>(context, "segments")), {}};
  }
};

// The rows that are read lie in the order of sums as an order of elements of their own.
class GatheredSumFunction : public torch::autograd::Function<GatheredSumFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Segments& from, const Segments& to) {
    save_object(context, "segments", std::pair(from, to));
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.front() = to.num_rows();
    const at::Tensor sums = at::empty(sizes, x.options());
    const at::Tensor places = to.order.defined() ? at::index_select(from.rows, 0, to.order) : from.rows;
    kernels(x.device()).sum_segments(columns_of(x), places, to.first, columns_of(sums));
    return sums;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& [from, to] = saved_object<std::pair<Segments, Segments>>(context, "segments");
    return {gathered_sum(gradients[0], to, from), {}, {}};
  }
};

void check_sizes(const at::Tensor& x, int64_t rows) {
  TERRACE_CHECK(x.dim() >= 1 && x.size(0) == rows, "{} rows of a tensor for {} of its segments", x.size(0), rows);
}

// torch's gather, which has derivatives of any order, of the places that a kernel finds.
at::Tensor segment_extreme(const at::Tensor& x, const Segments& segments, bool largest) {
  check_sizes(x, segments.rows.size(0));
  if (x.size(0) == 0) return segment_sum(x, segments);
  const at::Tensor values = x.detach().contiguous();
  const at::Tensor places = at::empty({segments.num_rows(), x.size(1)}, segments.first.options());
  kernels(x.device()).extremes_of_segments(values, segments.order, segments.first, largest, places);
  return x.gather(0, places.clamp_min(0)).masked_fill(places.lt(0), 0);
}

}  // namespace

Segments segments_of(const at::Tensor& rows, int64_t num_rows) {
  const auto [sorted, order] = at::sort(rows, /*stable=*/std::optional(true), /*dim=*/0, /*descending=*/false);
  return {rows, order, at::searchsorted(sorted, at::arange(num_rows + 1, rows.options()))};
}

at::Tensor gather(const at::Tensor& x, const Segments& segments) {
  check_sizes(x, segments.num_rows());
  return GatherFunction::apply(x, segments);
}

at::Tensor segment_sum(const at::Tensor& x, const Segments& segments) {
  check_sizes(x, segments.rows.size(0));
  return SegmentSumFunction::apply(x, segments);
}

at::Tensor gathered_sum(const at::Tensor& x, const Segments& from, const Segments& to) {
  check_sizes(x, from.num_rows());
  TERRACE_CHECK(from.rows.size(0) == to.rows.size(0), "{} and {} elements", from.rows.size(0), to.rows.size(0));
  return GatheredSumFunction::apply(x, from, to);
}

at::Tensor segment_max(const at::Tensor& x, const Segments& segments) { return segment_extreme(x, segments, true); }

at::Tensor segment_min(const at::Tensor& x, const Segments& segments) { return segment_extreme(x, segments, false); }

}  // namespace terrace::ops

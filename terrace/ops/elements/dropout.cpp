// Implements dropout as a differentiable function.
#include "terrace/ops/elements/dropout.h"

#include <ATen/ops/empty_like.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor apply_mask(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual) {
  const auto planes = [](const at::Tensor& t) { return t.dim() == 3 ? t.unsqueeze(1) : t; };  // [B, planes, T, D]
  const at::Tensor input = x.contiguous();
  at::Tensor out = at::empty_like(input);
  kernels(x.device())
      .dropout(draw, planes(input), residual.defined() ? planes(residual.contiguous()) : residual, planes(out));
  return out;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const DropoutDraw& draw) {
    save_object(context, "draw", draw);
    return apply_mask(draw, x, {});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("dropout");
    return {apply_mask(saved_object<DropoutDraw>(context, "draw"), gradients[0], {}), {}};
  }
};

class DropoutAddFunction : public torch::autograd::Function<DropoutAddFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& x,
                            const DropoutDraw& draw) {
    save_object(context, "draw", draw);
    return apply_mask(draw, x, residual);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("dropout");
    return {gradients[0], apply_mask(saved_object<DropoutDraw>(context, "draw"), gradients[0], {}), {}};
  }
};

}  // namespace

DropoutDraw draw_of(const DropoutSite& site, std::string_view name) {
  TERRACE_CHECK(site.rate >= 0.0 && site.rate < 1.0, "dropout rate {}", site.rate);
  const PhiloxBlock block = philox_at(stream_key(site.seed, name), static_cast<uint64_t>(site.step), 0);
  return {.key = {block[0], block[1]},
          .samples = site.samples,
          .threshold = static_cast<uint32_t>(std::lround(site.rate * 65536.0)),
          .first_plane = site.first_head,
          .positions = site.positions};
}

at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutSite& site,
                       std::string_view name) {
  const DropoutDraw draw = draw_of(site, name);
  if (draw.threshold == 0) return residual.defined() ? residual.add(x) : x;
  return residual.defined() ? DropoutAddFunction::apply(residual, x, draw) : DropoutFunction::apply(x, draw);
}

void drop_in_heads(const at::Tensor& x, int64_t heads, const DropoutDraw& draw) {
  TERRACE_CHECK(x.is_contiguous() && x.size(2) % heads == 0, "{} columns of {} heads", x.size(2), heads);
  const at::Tensor planes = x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  kernels(x.device()).dropout(draw, planes, {}, planes);
}

at::Tensor dropout(const at::Tensor& x, const DropoutSite& site, std::string_view name) {
  return dropout_add({}, x, site, name);
}

}  // namespace terrace::ops

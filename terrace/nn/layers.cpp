// Implements the layers.
#include "terrace/nn/layers.h"

#include "terrace/ops/elements/norm.h"
#include "terrace/ops/embedding.h"
#include "terrace/ops/products/linear.h"

namespace terrace::nn {

ops::Weight weight_of(const Parameter* parameter) {
  if (parameter == nullptr) return {};
  return {parameter->value, parameter->gradient, parameter->products, parameter->cut, parameter->gradient_holds_sum};
}

Linear::Linear(int64_t inputs, int64_t outputs, bool bias, InitialValue initial, const Build& build)
    : weight(add_parameter("weight", {outputs, inputs}, initial, /*decay=*/true, build)),
      bias(bias ? &add_parameter("bias", {outputs}, InitialValue::constant(0.0), /*decay=*/false, build) : nullptr) {
  weight.gradient_holds_sum = std::make_shared<bool>(true);
}

at::Tensor Linear::forward(const at::Tensor& x, ops::WeightGradientQueue* deferred) const {
  return ops::linear(x, weight_of(&weight), weight_of(bias), deferred);
}

Embedding::Embedding(int64_t rows, int64_t width, int64_t limit, InitialValue initial, const Build& build)
    : weight(add_parameter("weight", {rows, width}, initial, /*decay=*/true, build)), limit_(limit) {
  weight.gradient_holds_sum = std::make_shared<bool>(true);
}

at::Tensor Embedding::forward(const at::Tensor& indices, const char* what, ops::WeightGradientQueue* deferred) const {
  return ops::embedding(weight_of(&weight), indices, limit_, what, deferred);
}

Norm::Norm(Kind kind, int64_t width, bool bias, double epsilon, const Build& build)
    : weight(add_parameter("weight", {width}, InitialValue::constant(kind == Kind::rms_1p ? 0.0 : 1.0), /*decay=*/false,
                           build)),
      bias(bias && kind == Kind::layer
               ? &add_parameter("bias", {width}, InitialValue::constant(0.0), /*decay=*/false, build)
               : nullptr),
      kind_(kind),
      epsilon_(epsilon) {}

at::Tensor Norm::forward(const at::Tensor& x) const {
  ops::ResidualStream stream{x};
  return forward(stream);
}

at::Tensor Norm::forward(ops::ResidualStream& x, ops::WeightGradientQueue* deferred) const {
  return kind_ == Kind::layer ? ops::layer_norm(x, weight_of(&weight), weight_of(bias), epsilon_, deferred)
                              : ops::rms_norm(x, weight_of(&weight), epsilon_, deferred, weight_offset());
}

}  // namespace terrace::nn

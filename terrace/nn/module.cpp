// Implements names and initial values of parameters and buffers, and gradient buffers.
#include "terrace/nn/module.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>

#include "terrace/base/error.h"
#include "terrace/ops/initial.h"
#include "terrace/ops/kernels.h"

namespace terrace::nn {

namespace {

// The numbers of an even row are those that the matrix of even rows alone would have.
void fill_opposite_rows(const InitialValue& initial, PhiloxKey key, const at::Tensor& out, int64_t first) {
  const int64_t columns = initial.columns, end = first + out.numel();
  for (int64_t at = first; at < end;) {
    const int64_t row = at / columns, row_end = std::min(end, (row + 1) * columns);
    const at::Tensor part = out.narrow(0, at - first, row_end - at);
    ops::fill_uniform(part, key, initial.low, initial.high, row / 2 * columns + at % columns);
    if (row % 2 == 1) part.neg_();
    at = row_end;
  }
}

// Fills `out` with the elements of a whole tensor that begin at `first`.
void fill_initial(const InitialValue& initial, PhiloxKey key, const at::Tensor& out, int64_t first) {
  switch (initial.kind) {
    case InitialValue::Kind::constant:
      out.fill_(initial.value);
      return;
    case InitialValue::Kind::normal:
      return ops::fill_normal(out, key, initial.value, first);
    case InitialValue::Kind::truncated_normal:
      return ops::fill_truncated_normal(out, key, initial.value, initial.high, first);
    case InitialValue::Kind::uniform:
      return ops::fill_uniform(out, key, initial.low, initial.high, first);
    case InitialValue::Kind::opposite_rows:
      return fill_opposite_rows(initial, key, out, first);
    case InitialValue::Kind::table:
      out.copy_(initial.elements(first, first + out.numel()));
      return;
  }
}

}  // namespace

InitialValue InitialValue::table(const at::Tensor& whole) {
  return table([flat = whole.detach().cpu().flatten()](int64_t begin, int64_t end) {
    return flat.narrow(0, begin, end - begin);
  });
}

Build Build::in_fp32() const {
  Build build = *this;
  if (type != at::kDouble) build.type = at::kFloat;
  return build;
}

std::vector<Parameter*> Module::parameters() { return order_; }
std::vector<Buffer*> Module::buffers() { return buffer_order_; }

Parameter& Module::add_parameter(std::string name, at::IntArrayRef shape, InitialValue initial, bool decay,
                                 const Build& build) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  const at::Device device = build.allocate ? build.device : at::kMeta;
  parameter->value = at::empty(shape, at::TensorOptions().device(device).dtype(build.type));
  parameter->value.set_requires_grad(true);
  parameter->initial = std::move(initial);
  parameter->decay = decay;
  // The shape is that of the whole parameter: a model is cut after it is built.
  parameter->products = build.kernels.products[ops::weight_class_of(shape)];
  own_.push_back(std::move(parameter));
  order_.push_back(own_.back().get());
  return *own_.back();
}

Buffer& Module::add_buffer(std::string name, at::IntArrayRef shape, InitialValue initial, const Build& build) {
  const at::Device device = build.allocate ? build.device : at::kMeta;
  const auto options = at::TensorOptions().device(device).dtype(build.in_fp32().type);
  own_buffers_.push_back(std::make_unique<Buffer>(
      Buffer{.name = std::move(name), .value = at::empty(shape, options), .initial = std::move(initial)}));
  buffer_order_.push_back(own_buffers_.back().get());
  return *own_buffers_.back();
}

void Module::adopt(std::string name, std::unique_ptr<Module> module) {
  for (Parameter* parameter : module->order_) {
    parameter->name = name + "." + parameter->name;
    order_.push_back(parameter);
  }
  for (Buffer* buffer : module->buffer_order_) {
    buffer->name = name + "." + buffer->name;
    buffer_order_.push_back(buffer);
  }
  children_.push_back(std::move(module));
}

at::Tensor initial_value(const Parameter& parameter, uint64_t seed, at::ScalarType type) {
  return initial_value(parameter, seed, type, 0, parameter.value.numel()).view(parameter.value.sizes());
}

at::Tensor initial_value(const Parameter& parameter, uint64_t seed, at::ScalarType type, int64_t begin, int64_t end) {
  at::NoGradGuard no_grad;
  // Computed on the CPU for every device, so that all devices start from the same bits.
  at::Tensor values = at::empty({end - begin}, at::TensorOptions().dtype(type));
  // A parameter outside of a model needs no mark.
  const ParamMark mark = parameter.mark.kind == ParamMark::Kind::unmarked
                             ? ParamMark::replicated(parameter.value.sizes().vec())
                             : parameter.mark;
  for (const MappedRange& run : mapped_ranges(mark, begin, end)) {
    fill_initial(parameter.initial, stream_key(seed, parameter.name), values.narrow(0, run.local - begin, run.size),
                 run.global);
  }
  return values.to(parameter.value.device());
}

void initialize(const std::vector<Parameter*>& parameters, uint64_t seed) {
  at::NoGradGuard no_grad;
  for (Parameter* parameter : parameters) {
    parameter->value.copy_(initial_value(*parameter, seed, parameter->value.scalar_type()));
  }
}

void initialize(const std::vector<Buffer*>& buffers, uint64_t seed) {
  at::NoGradGuard no_grad;
  for (Buffer* buffer : buffers) {
    const at::Tensor values = at::empty(buffer->value.sizes(), buffer->value.options().device(at::kCPU));
    fill_initial(buffer->initial, stream_key(seed, buffer->name), values.view({-1}), 0);
    buffer->value.copy_(values);
  }
}

int64_t whole_elements(const std::vector<Parameter*>& parameters) {
  int64_t elements = 0;
  for (const Parameter* parameter : parameters) elements += c10::multiply_integers(parameter->mark.global_shape);
  return elements;
}

void allocate_gradients(const std::vector<Parameter*>& parameters, at::ScalarType type) {
  for (Parameter* parameter : parameters) {
    parameter->gradient = at::zeros(parameter->value.sizes(), parameter->value.options().dtype(type));
    if (parameter->gradient_holds_sum) *parameter->gradient_holds_sum = true;
  }
}

void zero_gradients(const std::vector<Parameter*>& parameters) {
  for (Parameter* parameter : parameters) {
    TERRACE_CHECK(parameter->gradient.defined(), "{} has no gradient buffer", parameter->name);
    parameter->gradient.zero_();
    if (parameter->gradient_holds_sum) *parameter->gradient_holds_sum = true;
  }
}

void clear_gradient(const Parameter& parameter, bool poison) {
  if (!parameter.gradient_holds_sum) {
    parameter.gradient.zero_();
    return;
  }
  *parameter.gradient_holds_sum = false;
  if (poison) parameter.gradient.fill_(std::numeric_limits<double>::quiet_NaN());
}

void collect_autograd_gradients(const std::vector<Parameter*>& parameters) {
  at::NoGradGuard no_grad;
  for (Parameter* parameter : parameters) {
    if (ops::begins_sum(parameter->gradient_holds_sum)) parameter->gradient.zero_();
    at::Tensor& from = parameter->value.mutable_grad();
    if (!from.defined()) continue;
    TERRACE_CHECK(parameter->gradient.defined(), "{} has no gradient buffer", parameter->name);
    ops::kernels(from.device()).add(parameter->gradient, from.contiguous());
    from.reset();
  }
}

}  // namespace terrace::nn

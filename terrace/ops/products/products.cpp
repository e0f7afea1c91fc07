// Calls our kernels or torch's for each product.
#include "terrace/ops/products/products.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/registers.h"
#include "terrace/ops/cpu/rows_times.h"
#include "terrace/ops/cpu/vector_set.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/products/gelu_products.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

using cpu::Factor;
using cpu::Finish;

// A matrix [rows, k], whose rows need not be contiguous, or its transpose.
Factor factor(const at::Tensor& matrix, bool k_inner) {
  TERRACE_CHECK(matrix.stride(1) == 1 || matrix.size(1) <= 1, "columns of a factor have stride {}", matrix.stride(1));
  return {matrix.const_data_ptr(), matrix.stride(0), k_inner};
}

Finish into(const at::Tensor& out, Finish::Kind kind) {
  TERRACE_CHECK(out.stride(1) == 1 || out.size(1) <= 1, "columns of a product have stride {}", out.stride(1));
  return {.kind = kind, .out = out.mutable_data_ptr(), .out_stride = out.stride(0), .out_type = out.scalar_type()};
}

struct ProductSize {
  int64_t m, n, k;
};

// `passed_over`: what finish reads and writes, once for each time.
void product(const char* name, const at::Tensor& like, const Factor& a, const Factor& b, const ProductSize& size,
             const Finish& finish, std::initializer_list<at::Tensor> passed_over) {
  const profile::OperationRecord record(name, [&] {
    const auto m = static_cast<double>(size.m), n = static_cast<double>(size.n), k = static_cast<double>(size.k);
    return profile::OperationCost{
        .flops = 2 * m * n * k,
        .bytes = (m + n) * k * static_cast<double>(like.element_size()) + profile::bytes_of(passed_over)};
  });
  cpu::matmul(like.scalar_type(), a, b, size.m, size.n, size.k, finish);
}

// y = x W^T with x [m, k] and W [n, k], y = dy W with dy [m, k] and W [k, n], and y = dy^T x with dy [k, m], x [k, n].
ProductSize size_of_forward(const at::Tensor& x, const at::Tensor& weight) {
  return {x.size(0), weight.size(0), x.size(1)};
}
ProductSize size_of_inputs(const at::Tensor& dy, const at::Tensor& weight) {
  return {dy.size(0), weight.size(1), dy.size(1)};
}
ProductSize size_of_weights(const at::Tensor& dy, const at::Tensor& x) { return {dy.size(1), x.size(1), x.size(0)}; }

// Where our kernels do not multiply fp16, fp16 is multiplied in fp32 by our kernels, and the products are rounded to
// fp16 once: torch's fp16 products take a hundred times as long.
at::ScalarType computed_in(at::ScalarType type) {
  return type == at::kHalf && !cpu::has_matmul(at::kHalf) ? at::kFloat : type;
}

// Without AVX-512 torch multiplies numbers of 16 bits one by one, at less than a tenth of the rate of fp32.
bool torch_computes_wider(const at::Tensor& x) {
  return x.is_cpu() && x.element_size() == 2 && cpu::vector_set(at::kFloat) != cpu::VectorSet::avx512;
}

bool computes_wider(const at::Tensor& x, Products chosen) {
  return own_products(x, chosen) ? !cpu::has_matmul(x.scalar_type()) : torch_computes_wider(x);
}

at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

// On a GPU decoding computes this many rows at a time: the order of the sums of a row depends on the shape alone.
constexpr int64_t rows_at_a_time = 64;

// Calls product(rows of x, rows of y) for pieces of one shape, which is one row on a CPU.
template <typename Product>
void in_equal_pieces(const at::Tensor& x, const at::Tensor& y, const Product& product) {
  const int64_t piece = x.is_cpu() ? 1 : rows_at_a_time;
  for (int64_t begin = 0; begin < x.size(0); begin += piece) {
    const int64_t rows = std::min(piece, x.size(0) - begin);
    const at::Tensor padded = at::constant_pad_nd(x.narrow(0, begin, rows), {0, 0, 0, piece - rows});
    y.narrow(0, begin, rows).copy_(product(padded).narrow(0, 0, rows));
  }
}

// y = x W^T + b and, if `active` is defined, active = gelu(y), row by row.
void decode_into(const at::Tensor& y, const at::Tensor& active, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& bias) {
  if (!x.is_cpu() || !cpu::has_rows_times(x.scalar_type())) {
    const bool wider = torch_computes_wider(x);
    const at::Tensor w = wider ? wide(weight) : weight, b = wider ? wide(bias) : bias;
    in_equal_pieces(x, y, [&](const at::Tensor& rows) {
      return times_transposed(wider ? wide(rows) : rows, w, b, Products::torch);
    });
    if (active.defined())
      in_equal_pieces(y, active, [](const at::Tensor& rows) { return activated(rows, Activation::gelu); });
    return;
  }
  const profile::OperationRecord record("terrace::linear", [&] {
    const auto outputs = static_cast<double>(y.numel()), inputs = static_cast<double>(x.size(1));
    return profile::OperationCost{.flops = 2 * outputs * inputs, .bytes = profile::bytes_of({x, weight, y})};
  });
  const cpu::Factor rows = factor(x, true), columns = factor(weight, true);
  const Finish finish = into(y, Finish::Kind::store);
  cpu::rows_times(x.scalar_type(), {.rows = x.size(0),
                                    .outputs = weight.size(0),
                                    .inputs = x.size(1),
                                    .x = rows.data,
                                    .x_stride = rows.stride,
                                    .weight = columns.data,
                                    .weight_stride = columns.stride,
                                    .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
                                    .out = finish.out,
                                    .out_stride = finish.out_stride,
                                    .active = active.defined() ? active.mutable_data_ptr() : nullptr});
}

// Whether our products compute the activation on the way.
bool has_finish(Activation activation) { return activation == Activation::gelu || activation == Activation::swiglu; }

}  // namespace

bool own_products(const at::Tensor& x, Products chosen) {
  return chosen == Products::own && x.is_cpu() && cpu::has_matmul(computed_in(x.scalar_type()));
}

const char* products_instructions(const at::Device& device, at::ScalarType type, Products chosen) {
  const bool own = chosen == Products::own && device.is_cpu();
  return name_of(own ? cpu::vector_set(computed_in(type)) : cpu::VectorSet::none);
}

Products products_for(c10::IntArrayRef sizes, at::ScalarType type, Products chosen) {
  if (chosen != Products::decoding || sizes[sizes.size() - 2] == 1) return chosen;
  return type == at::kBFloat16 && cpu::has_bf16_tiles() ? Products::torch : Products::own;
}

at::Tensor times_transposed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Products products) {
  if (products == Products::decoding) {
    at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    decode_into(y, {}, x, weight, bias);
    return y;
  }
  if (computes_wider(x, products)) {
    return times_transposed(wide(x), wide(weight), wide(bias), products).to(x.scalar_type());
  }
  if (!own_products(x, products)) {
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
  }
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  Finish finish = into(y, Finish::Kind::store);
  if (bias.defined()) finish.bias = bias.const_data_ptr();
  product("terrace::linear", x, factor(x, true), factor(weight, true), size_of_forward(x, weight), finish, {y});
  return y;
}

void times_transposed_into(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight, Products products) {
  if (products == Products::decoding) {
    decode_into(y, {}, x, weight, {});
  } else if (computes_wider(x, products)) {
    y.copy_(times_transposed(wide(x), wide(weight), {}, products));
  } else if (own_products(x, products)) {
    product("terrace::linear", x, factor(x, true), factor(weight, true), size_of_forward(x, weight),
            into(y, Finish::Kind::store), {y});
  } else {
    at::Tensor out = y;
    at::mm_out(out, x, weight.t());
  }
}

void exponentials_into(const at::Tensor& y, const at::Tensor& sums, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& references, int64_t counted) {
  Finish finish = into(y, Finish::Kind::exponentials);
  finish.references = references.const_data_ptr<float>();
  finish.counted = counted;
  finish.sums = sums.mutable_data_ptr<float>();
  finish.sums_stride = sums.stride(0);
  product("terrace::linear", x, factor(x, true), factor(weight, true), size_of_forward(x, weight), finish, {y});
}

int64_t exponential_sums(int64_t columns) { return (columns + cpu::sum_columns - 1) / cpu::sum_columns; }

std::pair<at::Tensor, at::Tensor> times_transposed_activated(const at::Tensor& x, const at::Tensor& weight,
                                                             const at::Tensor& bias, Products products,
                                                             Activation activation) {
  if (products == Products::decoding) {
    const at::Tensor inner = at::empty({x.size(0), weight.size(0)}, x.options());
    if (activation == Activation::gelu) {
      const at::Tensor out = at::empty_like(inner);
      decode_into(inner, out, x, weight, bias);
      return {inner, out};
    }
    decode_into(inner, {}, x, weight, bias);
    if (is_gated(activation)) return {inner, activated(inner, activation)};
    const at::Tensor out = at::empty_like(inner);
    in_equal_pieces(inner, out, [](const at::Tensor& rows) { return activated(rows, Activation::gelu_erf); });
    return {inner, out};
  }
  if (activation == Activation::gelu && x.is_cuda()) {
    const at::Tensor inner = at::empty({x.size(0), weight.size(0)}, x.options()), active = at::empty_like(inner);
    if (linear_gelu(x, weight, bias, inner, active)) return {inner, active};
  }
  const bool has_own = own_products(x, products), wider = has_own && computes_wider(x, products);
  if (!has_own || wider || !has_finish(activation)) {
    const at::Tensor inner = times_transposed(x, weight, bias, products);
    return {inner, wider ? activated(wide(inner), activation).to(x.scalar_type()) : activated(inner, activation)};
  }
  const bool gated = activation == Activation::swiglu;
  const at::Tensor inner = at::empty({x.size(0), weight.size(0)}, x.options());
  const at::Tensor out = at::empty({x.size(0), weight.size(0) / (gated ? 2 : 1)}, x.options());
  Finish finish = into(out, gated ? Finish::Kind::swiglu : Finish::Kind::gelu);
  if (bias.defined()) finish.bias = bias.const_data_ptr();
  finish.inner = inner.mutable_data_ptr();
  finish.inner_stride = inner.stride(0);
  product(gated ? "terrace::linear_swiglu" : "terrace::linear_gelu", x, factor(x, true), factor(weight, true),
          size_of_forward(x, weight), finish, {inner, out});
  return {inner, out};
}

at::Tensor times(const at::Tensor& dy, const at::Tensor& weight, Products products) {
  at::Tensor dx = at::empty({dy.size(0), weight.size(1)}, dy.options());
  times_into(dx, dy, weight, products);
  return dx;
}

void times_into(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& weight, Products products,
                const at::Tensor& factors) {
  if (computes_wider(dy, products)) {
    dx.copy_(times(wide(dy), wide(weight), products));
  } else if (own_products(dy, products)) {
    Finish finish = into(dx, Finish::Kind::store);
    if (factors.defined()) finish.factors = factors.const_data_ptr<float>();
    product("terrace::linear_inputs", dy, factor(dy, true), factor(weight, false), size_of_inputs(dy, weight), finish,
            {dx});
    return;
  } else {
    at::Tensor out = dx;
    at::mm_out(out, dy, weight);
  }
  if (factors.defined()) dx.mul_(factors.unsqueeze(1));
}

at::Tensor times_activation_backward(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& inner,
                                     Products products, Activation activation) {
  if (activation == Activation::gelu && dy.is_cuda()) {
    const at::Tensor d_inner = at::empty_like(inner);
    if (linear_inputs_gelu(dy, weight, inner, d_inner)) return d_inner;
  }
  if (!own_products(dy, products)) return activation_backward(times(dy, weight, products), inner, activation);
  if (computes_wider(dy, products)) {
    return times_activation_backward(wide(dy), wide(weight), wide(inner), products, activation).to(inner.scalar_type());
  }
  if (!has_finish(activation)) return activation_backward(times(dy, weight, products), inner, activation);
  const bool gated = activation == Activation::swiglu;
  at::Tensor out = at::empty_like(inner);
  Finish finish = into(out, gated ? Finish::Kind::swiglu_backward : Finish::Kind::gelu_backward);
  finish.inner = inner.mutable_data_ptr();
  finish.inner_stride = inner.stride(0);
  product(gated ? "terrace::linear_inputs_swiglu" : "terrace::linear_inputs_gelu", dy, factor(dy, true),
          factor(weight, false), size_of_inputs(dy, weight), finish, {inner, out});
  return out;
}

void add_outer_product(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x, Products products,
                       bool begins) {
  if (!gradient.defined()) return;
  const bool same_type = gradient.scalar_type() == x.scalar_type();
  const bool fits = gradient.scalar_type() == at::kFloat || same_type;
  if (computes_wider(x, products) && fits) {
    const at::Tensor sum = gradient.to(at::kFloat);  // the gradient itself if it is fp32
    add_outer_product(sum, wide(dy), wide(x), products, begins);
    if (!sum.is_same(gradient)) gradient.copy_(sum);
  } else if (own_products(x, products) && fits) {
    const Finish finish = into(gradient, begins ? Finish::Kind::store : Finish::Kind::accumulate);
    product("terrace::linear_weights", x, factor(dy, false), factor(x, false), size_of_weights(dy, x), finish,
            {gradient, begins ? at::Tensor() : gradient});
  } else if (x.is_cuda() && !same_type && gradient.scalar_type() == at::kFloat) {
    // The product of 16-bit factors stays in fp32, in which it is added.
    at::Tensor out = gradient;
    if (begins) {
      at::mm_out(out, dy.t(), x, at::kFloat);
    } else {
      at::addmm_out(out, out, dy.t(), x, at::kFloat);
    }
  } else if (begins && same_type) {
    at::Tensor out = gradient;
    at::mm_out(out, dy.t(), x);
  } else if (begins) {
    gradient.copy_(at::mm(dy.t(), x));
  } else if (same_type) {
    gradient.addmm_(dy.t(), x);
  } else {
    kernels(x.device()).add(gradient, at::mm(dy.t(), x));
  }
}

}  // namespace terrace::ops

// Computes the products of all experts by one team where there are kernels for it, and else one expert after another.
#include "terrace/ops/experts/expert_products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/expert_rows.h"
#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/products/products.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

using cpu::Finish;
using cpu::TeamProduct;

bool by_team(const at::Tensor& x, Products products) {
  return products != Products::torch && x.is_cpu() && cpu::has_matmul(x.scalar_type());
}

bool by_team(const at::Tensor& x, Products products, Activation activation) {
  return activation != Activation::gelu_erf && by_team(x, products);
}

// The rows of one expert.
struct RowsOfExpert {
  int64_t expert, first, count;

  at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, first, count); }
};

// Calls body(RowsOfExpert) for the experts that have rows.
template <typename Body>
void for_experts(const ExpertOffsets& offsets, const Body& body) {
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const int64_t count = offsets[e + 1] - offsets[e];
    if (count > 0) body(RowsOfExpert{static_cast<int64_t>(e), offsets[e], count});
  }
}

at::TensorOptions computing(const at::Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

const void* element(const at::Tensor& matrix, int64_t index) {
  return static_cast<const char*>(matrix.const_data_ptr()) + index * static_cast<int64_t>(matrix.element_size());
}

void* mutable_element(const at::Tensor& matrix, int64_t index) {
  return static_cast<char*>(matrix.mutable_data_ptr()) + index * static_cast<int64_t>(matrix.element_size());
}

// The rows of an expert in a matrix [R, k], and the expert's matrix in a weight [E, k or n, ..].
cpu::Factor factor_of_rows(const at::Tensor& rows, const RowsOfExpert& own, bool k_inner) {
  return {element(rows, own.first * rows.size(1)), rows.size(1), k_inner};
}
cpu::Factor factor_of_weight(const at::Tensor& weight, const RowsOfExpert& own, bool k_inner) {
  return {element(weight, own.expert * weight.size(1) * weight.size(2)), weight.size(2), k_inner};
}

Finish into_rows(const at::Tensor& out, const RowsOfExpert& own, Finish::Kind kind) {
  return {.kind = kind,
          .out = mutable_element(out, own.first * out.size(1)),
          .out_stride = out.size(1),
          .out_type = out.scalar_type()};
}

void set_inner(Finish& finish, const at::Tensor& inner, const RowsOfExpert& own) {
  finish.inner = mutable_element(inner, own.first * inner.size(1));
  finish.inner_stride = inner.size(1);
}

// `passed_over`: the tensors that the products read and write.
void multiply(const char* name, const at::Tensor& like, const std::vector<TeamProduct>& products,
              std::initializer_list<at::Tensor> passed_over) {
  const profile::OperationRecord record(name, [&] {
    double flops = 0;
    for (const TeamProduct& each : products) {
      flops += 2 * static_cast<double>(each.m) * static_cast<double>(each.n) * static_cast<double>(each.k);
    }
    return profile::OperationCost{.flops = flops, .bytes = profile::bytes_of(passed_over)};
  });
  cpu::matmul_team(like.scalar_type(), products);
}

// Multiplies the rows of each expert with its weight; finish(rows of the expert) says what is done with the products.
template <typename FinishOf>
void multiply_rows(const char* name, const at::Tensor& rows, const ExpertOffsets& offsets, const at::Tensor& weight,
                   bool transposed, const FinishOf& finish, std::initializer_list<at::Tensor> passed_over) {
  const int64_t outputs = weight.size(transposed ? 1 : 2), inputs = weight.size(transposed ? 2 : 1);
  std::vector<TeamProduct> products;
  for_experts(offsets, [&](const RowsOfExpert& own) {
    products.push_back({factor_of_rows(rows, own, true), factor_of_weight(weight, own, transposed), own.count, outputs,
                        inputs, finish(own)});
  });
  multiply(name, rows, products, passed_over);
}

Finish::Kind forward_kind(bool gated, bool weighted) {
  if (gated) return weighted ? Finish::Kind::weighted_swiglu : Finish::Kind::swiglu;
  return weighted ? Finish::Kind::weighted_gelu : Finish::Kind::gelu;
}
Finish::Kind backward_kind(bool gated, bool weighted) {
  if (gated) return weighted ? Finish::Kind::weighted_swiglu_backward : Finish::Kind::swiglu_backward;
  return weighted ? Finish::Kind::weighted_gelu_backward : Finish::Kind::gelu_backward;
}

// `values` with each row times its weight, rounded once.
at::Tensor weighted(const at::Tensor& values, const at::Tensor& p) {
  return p.defined() ? values.mul(p.unsqueeze(1)).to(values.scalar_type()) : values;
}

}  // namespace

ActivatedRows experts_activated(const at::Tensor& x, const at::Tensor& p, const ExpertOffsets& offsets,
                                const at::Tensor& weight, Activation activation, Products products) {
  const bool gated = activation == Activation::swiglu;
  ActivatedRows rows{at::empty({x.size(0), weight.size(1)}, x.options()),
                     at::empty({x.size(0), weight.size(1) / (gated ? 2 : 1)}, x.options())};
  if (!by_team(x, products, activation)) {
    for_experts(offsets, [&](const RowsOfExpert& own) {
      const auto [inner, active] =
          times_transposed_activated(own.of(x), weight.select(0, own.expert), {}, products, activation);
      own.of(rows.inner).copy_(inner);
      own.of(rows.active).copy_(weighted(active, p.defined() ? own.of(p) : p));
    });
    return rows;
  }
  const auto finish = [&](const RowsOfExpert& own) {
    Finish result = into_rows(rows.active, own, forward_kind(gated, p.defined()));
    set_inner(result, rows.inner, own);
    if (p.defined()) result.weights = p.const_data_ptr<float>() + own.first;
    return result;
  };
  multiply_rows("terrace::experts_activated", x, offsets, weight, true, finish, {x, weight, rows.inner, rows.active});
  return rows;
}

at::Tensor experts_times_transposed(const at::Tensor& x, const ExpertOffsets& offsets, const at::Tensor& weight,
                                    Products products) {
  at::Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
  if (!by_team(x, products)) {
    for_experts(offsets, [&](const RowsOfExpert& own) {
      times_transposed_into(own.of(y), own.of(x), weight.select(0, own.expert), products);
    });
    return y;
  }
  const auto finish = [&](const RowsOfExpert& own) { return into_rows(y, own, Finish::Kind::store); };
  multiply_rows("terrace::experts", x, offsets, weight, true, finish, {x, weight, y});
  return y;
}

at::Tensor experts_times(const at::Tensor& dy, const ExpertOffsets& offsets, const at::Tensor& weight,
                         Products products) {
  at::Tensor dx = at::empty({dy.size(0), weight.size(2)}, dy.options());
  if (!by_team(dy, products)) {
    for_experts(offsets, [&](const RowsOfExpert& own) {
      times_into(own.of(dx), own.of(dy), weight.select(0, own.expert), products);
    });
    return dx;
  }
  const auto finish = [&](const RowsOfExpert& own) { return into_rows(dx, own, Finish::Kind::store); };
  multiply_rows("terrace::experts_inputs", dy, offsets, weight, false, finish, {dy, weight, dx});
  return dx;
}

ActivatedGradients experts_activation_backward(const at::Tensor& dy, const at::Tensor& inner, const at::Tensor& p,
                                               const ExpertOffsets& offsets, const at::Tensor& weight,
                                               Activation activation, Products products) {
  ActivatedGradients gradients{at::empty_like(inner), {}};
  if (!by_team(dy, products, activation)) {
    if (p.defined()) gradients.p = at::empty({dy.size(0)}, computing(dy));
    for_experts(offsets, [&](const RowsOfExpert& own) {
      const at::Tensor d_active = times(own.of(dy), weight.select(0, own.expert), products), x = own.of(inner);
      const at::Tensor own_p = p.defined() ? own.of(p) : p;
      own.of(gradients.inner).copy_(activation_backward(weighted(d_active, own_p), x, activation));
      if (!p.defined()) return;
      const at::Tensor products_of_columns = d_active.to(gradients.p.scalar_type()).mul(activated(x, activation));
      own.of(gradients.p).copy_(products_of_columns.sum(1));
    });
    return gradients;
  }
  const int64_t parts = p.defined() ? (weight.size(2) + cpu::weight_columns - 1) / cpu::weight_columns : 0;
  const at::Tensor sums = at::empty({dy.size(0), parts}, computing(dy));
  const auto finish = [&](const RowsOfExpert& own) {
    Finish result = into_rows(gradients.inner, own, backward_kind(activation == Activation::swiglu, p.defined()));
    set_inner(result, inner, own);
    if (!p.defined()) return result;
    result.weights = p.const_data_ptr<float>() + own.first;
    result.sums = sums.mutable_data_ptr<float>() + own.first * parts;
    result.sums_stride = parts;
    return result;
  };
  multiply_rows("terrace::experts_activation_backward", dy, offsets, weight, false, finish,
                {dy, weight, inner, gradients.inner});
  if (!p.defined()) return gradients;
  gradients.p = at::empty({dy.size(0)}, sums.options());
  cpu::sum_parts(sums, gradients.p);
  return gradients;
}

void experts_add_outer_products(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x,
                                const ExpertOffsets& offsets, Products products, bool begins) {
  if (!gradient.defined()) return;
  const bool fits = gradient.scalar_type() == at::kFloat || gradient.scalar_type() == x.scalar_type();
  const bool team = by_team(x, products) && fits;
  std::vector<TeamProduct> all;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const RowsOfExpert own{static_cast<int64_t>(e), offsets[e], offsets[e + 1] - offsets[e]};
    const at::Tensor of_expert = gradient.select(0, own.expert);
    if (own.count == 0) {
      if (begins) of_expert.zero_();
    } else if (!team) {
      add_outer_product(of_expert, own.of(dy), own.of(x), products, begins);
    } else {
      all.push_back({factor_of_rows(dy, own, false),
                     factor_of_rows(x, own, false),
                     dy.size(1),
                     x.size(1),
                     own.count,
                     {.kind = begins ? Finish::Kind::store : Finish::Kind::accumulate,
                      .out = of_expert.mutable_data_ptr(),
                      .out_stride = x.size(1),
                      .out_type = gradient.scalar_type()}});
    }
  }
  if (team) multiply("terrace::experts_weights", x, all, {dy, x, gradient, begins ? at::Tensor() : gradient});
}

}  // namespace terrace::ops

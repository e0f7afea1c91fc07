// Each function's backward is made of the other functions, so that torch can keep a graph of it.
#include "terrace/ops/graphs/messages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The end of the edges over which a sum runs: the edges that an atom receives, or those that it sends.
enum class End { receiver, sender };

// Where edges are mutual, an atom sends what it receives, against its direction.
MessageLists lists_of(const Pairs& pairs, End end) {
  if (pairs.mutual()) {
    return {.first = pairs.received.first,
            .order = pairs.received.order,
            .others = pairs.sent.rows,
            .pairs = pairs.pairs,
            .opposite = pairs.opposite,
            .sign = end == End::receiver ? 1.0 : -1.0};
  }
  const Segments &own = end == End::receiver ? pairs.received : pairs.sent,
                 &other = end == End::receiver ? pairs.sent : pairs.received;
  return {.first = own.first, .order = own.order, .others = other.rows, .pairs = {}, .opposite = {}};
}

PairEnds ends_of(const Pairs& pairs) {
  return {pairs.received.rows, pairs.sent.rows, pairs.first_edges, pairs.mutual()};
}

// x [N, D] -> [N, 1, D].
at::Tensor with_planes(const at::Tensor& x) { return x.dim() == 2 ? x.unsqueeze(1).contiguous() : x.contiguous(); }

void check_atoms(const at::Tensor& x, const Pairs& pairs, int64_t planes = 0) {
  TERRACE_CHECK((x.dim() == 2 && planes <= 1) || (x.dim() == 3 && (planes == 0 || x.size(1) == planes)),
                "a tensor of {} dimensions, {} planes wanted", x.dim(), planes);
  TERRACE_CHECK(x.size(0) == pairs.num_atoms(), "{} rows for {} atoms", x.size(0), pairs.num_atoms());
}

void check_pairs(const at::Tensor& w, const Pairs& pairs) {
  TERRACE_CHECK(w.dim() == 2 && w.size(0) == pairs.num_pairs(), "{} rows for {} pairs", w.size(0), pairs.num_pairs());
}

at::Tensor sum_at(const at::Tensor& x, const at::Tensor& w, const Pairs& pairs, End end);

class MessageSum : public torch::autograd::Function<MessageSum> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w, const Pairs& pairs,
                            End end) {
    context->save_for_backward({x, w});
    save_object(context, "pairs", std::pair(pairs, end));
    const at::Tensor own = with_planes(x), sums = at::empty(own.sizes(), own.options());
    kernels(x.device()).message_sum(own, w.contiguous(), lists_of(pairs, end), sums);
    return sums.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& [pairs, end] = saved_object<std::pair<Pairs, End>>(context, "pairs");
    const bool received = end == End::receiver;
    at::Tensor dx, dw;
    if (context->needs_input_grad(0)) {
      dx = sum_at(gradients[0], saved[1], pairs, received ? End::sender : End::receiver);
    }
    if (context->needs_input_grad(1)) {
      dw = received ? message_product(gradients[0], saved[0], pairs) : message_product(saved[0], gradients[0], pairs);
    }
    return {dx, dw, {}, {}};
  }
};

at::Tensor sum_at(const at::Tensor& x, const at::Tensor& w, const Pairs& pairs, End end) {
  return MessageSum::apply(x, w, pairs, end);
}

class MessageProduct : public torch::autograd::Function<MessageProduct> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b, const Pairs& pairs) {
    context->save_for_backward({a, b});
    save_object(context, "pairs", pairs);
    const at::Tensor products = at::empty({pairs.num_pairs(), a.size(-1)}, a.options());
    kernels(a.device()).message_product(with_planes(a), with_planes(b), ends_of(pairs), products);
    return products;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& pairs = saved_object<Pairs>(context, "pairs");
    at::Tensor da, db;
    if (context->needs_input_grad(0)) da = sum_at(saved[1], gradients[0], pairs, End::receiver);
    if (context->needs_input_grad(1)) db = sum_at(saved[0], gradients[0], pairs, End::sender);
    return {da, db, {}};
  }
};

// One function for the four that are linear in v, x, w and u: the sum over edges and D of
// (sum over k of u[k] * v[receiver, k]) * w * x[sender], differentiated by the one that is wanted.
enum class Wanted { v, x, w, u };

template <Wanted wanted>
class Directed : public torch::autograd::Function<Directed<wanted>> {
 public:
  // The factors are those that are not wanted, in their order.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& first, const at::Tensor& second,
                            const at::Tensor& third, const Pairs& pairs) {
    context->save_for_backward({first, second, third});
    save_object(context, "pairs", pairs);
    const at::Tensor a = first.contiguous(), b = second.contiguous(), c = third.contiguous();
    const Kernels& own = kernels(first.device());
    const int64_t columns = wanted == Wanted::v ? a.size(1) : a.size(2);
    at::Tensor result;
    if constexpr (wanted == Wanted::v) {
      result = at::empty({a.size(0), 3, columns}, a.options());
      own.directed_sum(a, b, c, lists_of(pairs, End::receiver), result);
    } else if constexpr (wanted == Wanted::x) {
      result = at::empty({a.size(0), columns}, a.options());
      own.directed_dot(a, b, c, lists_of(pairs, End::sender), result);
    } else if constexpr (wanted == Wanted::w) {
      result = at::empty({pairs.num_pairs(), columns}, a.options());
      own.directed_product(a, b, c, ends_of(pairs), result);
    } else {
      result = at::empty({pairs.num_pairs(), 3}, a.options());
      own.direction_product(a, b, c, ends_of(pairs), result);
    }
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& pairs = saved_object<Pairs>(context, "pairs");
    const at::Tensor &g = gradients[0], &a = saved[0], &b = saved[1], &c = saved[2];
    const auto if_needed = [&](size_t input, auto function) {
      return context->needs_input_grad(input) ? function() : at::Tensor();
    };
    if constexpr (wanted == Wanted::v) {  // x, w, u
      return {if_needed(0, [&] { return directed_dot(g, b, c, pairs); }),
              if_needed(1, [&] { return directed_product(g, a, c, pairs); }),
              if_needed(2, [&] { return direction_product(g, a, b, pairs); }),
              {}};
    } else if constexpr (wanted == Wanted::x) {  // v, w, u
      return {if_needed(0, [&] { return directed_sum(g, b, c, pairs); }),
              if_needed(1, [&] { return directed_product(a, g, c, pairs); }),
              if_needed(2, [&] { return direction_product(a, g, b, pairs); }),
              {}};
    } else if constexpr (wanted == Wanted::w) {  // v, x, u
      return {if_needed(0, [&] { return directed_sum(b, g, c, pairs); }),
              if_needed(1, [&] { return directed_dot(a, g, c, pairs); }),
              if_needed(2, [&] { return direction_product(a, b, g, pairs); }),
              {}};
    } else {  // v, x, w
      return {if_needed(0, [&] { return directed_sum(b, c, g, pairs); }),
              if_needed(1, [&] { return directed_dot(a, c, g, pairs); }),
              if_needed(2, [&] { return directed_product(a, b, g, pairs); }),
              {}};
    }
  }
};

}  // namespace

Pairs pairs_of(const Segments& received, const Segments& sent, const at::Tensor& pairs, const at::Tensor& first_edges) {
  Pairs result{.received = received, .sent = sent, .pairs = pairs, .first_edges = first_edges};
  if (!pairs.defined()) return result;
  TERRACE_CHECK(pairs.size(0) == received.rows.size(0) && 2 * first_edges.size(0) == pairs.size(0),
                "{} pairs of {} edges, which have a pair number each: {}", first_edges.size(0), received.rows.size(0),
                pairs.size(0));
  result.opposite = at::ones({pairs.size(0)}, pairs.options().dtype(at::kByte)).index_fill_(0, first_edges, 0);
  return result;
}

at::Tensor message_sum(const at::Tensor& x, const at::Tensor& w, const Pairs& pairs) {
  check_atoms(x, pairs);
  check_pairs(w, pairs);
  return sum_at(x, w, pairs, End::receiver);
}

at::Tensor message_product(const at::Tensor& a, const at::Tensor& b, const Pairs& pairs) {
  check_atoms(a, pairs);
  check_atoms(b, pairs);
  return MessageProduct::apply(a, b, pairs);
}

at::Tensor directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const Pairs& pairs) {
  check_atoms(x, pairs, 1);
  check_pairs(w, pairs);
  check_pairs(u, pairs);
  return Directed<Wanted::v>::apply(x, w, u, pairs);
}

at::Tensor directed_dot(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const Pairs& pairs) {
  check_atoms(v, pairs, 3);
  check_pairs(w, pairs);
  check_pairs(u, pairs);
  return Directed<Wanted::x>::apply(v, w, u, pairs);
}

at::Tensor directed_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const Pairs& pairs) {
  check_atoms(v, pairs, 3);
  check_atoms(x, pairs, 1);
  check_pairs(u, pairs);
  return Directed<Wanted::w>::apply(v, x, u, pairs);
}

at::Tensor direction_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const Pairs& pairs) {
  check_atoms(v, pairs, 3);
  check_atoms(x, pairs, 1);
  check_pairs(w, pairs);
  return Directed<Wanted::u>::apply(v, x, w, pairs);
}

}  // namespace terrace::ops

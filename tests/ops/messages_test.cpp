// Compares messages along mutual and one-sided edges, and their first and second derivatives, with torch's operations
// on one row for each edge.
#include "terrace/ops/graphs/messages.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

namespace terrace::ops {
namespace {

using FactorList = std::vector<at::Tensor>;

class MessagesTest : public ::testing::Test {
 protected:
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
    return at::randn(sizes, generator_, at::TensorOptions().dtype(at::kDouble)).to(type);
  }

  // Draws `count` pairs of 13 atoms, some of them of an atom with itself. The last atom has no edges.
  Pairs drawn_pairs(bool mutual, int64_t count = 40) {
    const auto options = at::TensorOptions().dtype(at::kLong);
    const at::Tensor a = at::randint(0, 12, {count}, generator_, options),
                     b = at::randint(0, 12, {count}, generator_, options);
    at::Tensor receivers = mutual ? at::cat({a, b}) : a, senders = mutual ? at::cat({b, a}) : b;
    at::Tensor pairs = at::arange(count, options);
    if (mutual) pairs = at::cat({pairs, pairs});
    const at::Tensor order = receivers.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
    receivers = receivers.index_select(0, order);
    senders = senders.index_select(0, order);
    // Pairs are numbered by their first edge.
    std::vector<int64_t> first_edges, new_number(static_cast<size_t>(count), -1);
    at::Tensor numbers = pairs.index_select(0, order);
    for (int64_t edge = 0; edge < numbers.size(0); ++edge) {
      int64_t& number = new_number[static_cast<size_t>(numbers[edge].item<int64_t>())];
      if (number < 0) {
        number = std::ssize(first_edges);
        first_edges.push_back(edge);
      }
      numbers[edge] = number;
    }
    Segments received = segments_of(receivers, 13);
    received.order = at::Tensor();
    if (!mutual) return pairs_of(received, segments_of(senders, 13), {}, {});
    at::Tensor first = at::zeros({count}, options);
    for (int64_t i = 0; i < count; ++i) first[i] = first_edges[static_cast<size_t>(i)];
    return pairs_of(received, segments_of(senders, 13), numbers, first);
  }

 private:
  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(9);
};

// The factors of each edge, from those of its pair.
at::Tensor of_edges(const at::Tensor& of_pairs, const Pairs& pairs) {
  return pairs.mutual() ? at::index_select(of_pairs, 0, pairs.pairs) : of_pairs;
}
at::Tensor directions(const at::Tensor& u, const Pairs& pairs) {
  if (!pairs.mutual()) return u;
  const at::Tensor signs = at::where(pairs.opposite.to(at::kBool), -1.0, 1.0).to(u.scalar_type());
  return of_edges(u, pairs).mul(signs.unsqueeze(1));
}
at::Tensor from_senders(const at::Tensor& x, const Pairs& pairs) { return at::index_select(x, 0, pairs.sent.rows); }
at::Tensor to_receivers(const at::Tensor& messages, const Pairs& pairs) {
  std::vector<int64_t> sizes = messages.sizes().vec();
  sizes.front() = pairs.num_atoms();
  return at::index_add(at::zeros(sizes, messages.options()), 0, pairs.received.rows, messages);
}

at::Tensor plain_message_sum(const at::Tensor& x, const at::Tensor& w, const Pairs& pairs) {
  const at::Tensor weights = of_edges(w, pairs);
  return to_receivers(from_senders(x, pairs).mul(x.dim() == 3 ? weights.unsqueeze(1) : weights), pairs);
}
at::Tensor plain_directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const Pairs& pairs) {
  const at::Tensor messages = from_senders(x, pairs).mul(of_edges(w, pairs));
  return to_receivers(messages.unsqueeze(1).mul(directions(u, pairs).unsqueeze(2)), pairs);
}

// The gradients of (result * g).sum() and of the square of these gradients, for all inputs.
FactorList two_derivatives(const std::function<at::Tensor(const FactorList&)>& function, const FactorList& inputs,
                           const at::Tensor& g) {
  FactorList own;
  for (const at::Tensor& input : inputs) own.push_back(input.detach().clone().set_requires_grad(true));
  const at::Tensor result = function(own);
  const FactorList first = torch::autograd::grad({result.mul(g).mul(result).sum()}, own, {}, true, true);
  at::Tensor squares;
  FactorList all = {result.detach()};
  for (const at::Tensor& gradient : first) {
    squares = squares.defined() ? squares.add(gradient.square().sum()) : gradient.square().sum();
    all.push_back(gradient.detach());
  }
  for (const at::Tensor& gradient : torch::autograd::grad({squares}, own)) all.push_back(gradient);
  return all;
}

void expect_equal(const FactorList& own, const FactorList& plain, const std::string& what) {
  ASSERT_EQ(own.size(), plain.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(plain[i].abs().sum().item<double>() > 0) << what << " " << i;
    EXPECT_TRUE(own[i].allclose(plain[i], 1e-10, 1e-10)) << what << ", result or derivative " << i;
  }
}

TEST_F(MessagesTest, SumsAndTheirTwoDerivativesEqualTorchs) {
  for (const bool mutual : {true, false}) {
    const Pairs pairs = drawn_pairs(mutual);
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{13, 70}, {13, 1}, {13, 3, 5}}) {
      const FactorList inputs = {normal(sizes), normal({pairs.num_pairs(), sizes.back()})};
      const at::Tensor g = normal(sizes);
      expect_equal(
          two_derivatives([&](const FactorList& t) { return message_sum(t[0], t[1], pairs); }, inputs, g),
          two_derivatives([&](const FactorList& t) { return plain_message_sum(t[0], t[1], pairs); }, inputs, g),
          mutual ? "mutual" : "one-sided");
    }
  }
}

TEST_F(MessagesTest, DirectedSumsAndTheirTwoDerivativesEqualTorchs) {
  for (const bool mutual : {true, false}) {
    const Pairs pairs = drawn_pairs(mutual);
    for (const int64_t columns : {1, 19, 130}) {
      const FactorList inputs = {normal({13, columns}), normal({pairs.num_pairs(), columns}),
                                 normal({pairs.num_pairs(), 3})};
      const at::Tensor g = normal({13, 3, columns});
      expect_equal(
          two_derivatives([&](const FactorList& t) { return directed_sum(t[0], t[1], t[2], pairs); }, inputs, g),
          two_derivatives([&](const FactorList& t) { return plain_directed_sum(t[0], t[1], t[2], pairs); }, inputs, g),
          mutual ? "mutual" : "one-sided");
    }
  }
}

// Each of the functions is the derivative of one number, so that their inner products with the factor that is left out
// are equal.
TEST_F(MessagesTest, AllFunctionsAreDerivativesOfOneNumber) {
  for (const bool mutual : {true, false}) {
    const Pairs pairs = drawn_pairs(mutual);
    const int64_t p = pairs.num_pairs();
    const at::Tensor x = normal({13, 6}), w = normal({p, 6}), u = normal({p, 3}), v = normal({13, 3, 6});
    const double whole = directed_sum(x, w, u, pairs).mul(v).sum().item<double>();
    EXPECT_NEAR(directed_dot(v, w, u, pairs).mul(x).sum().item<double>(), whole, 1e-10);
    EXPECT_NEAR(directed_product(v, x, u, pairs).mul(w).sum().item<double>(), whole, 1e-10);
    EXPECT_NEAR(direction_product(v, x, w, pairs).mul(u).sum().item<double>(), whole, 1e-10);
    const at::Tensor a = normal({13, 6});
    EXPECT_NEAR(message_product(a, x, pairs).mul(w).sum().item<double>(),
                message_sum(x, w, pairs).mul(a).sum().item<double>(), 1e-10);
  }
}

TEST_F(MessagesTest, HaveTheSameBitsForAnyNumberOfThreads) {
  const Pairs pairs = drawn_pairs(true, 4000);
  const at::Tensor x = normal({13, 128}, at::kFloat), w = normal({pairs.num_pairs(), 128}, at::kFloat),
                   u = normal({pairs.num_pairs(), 3}, at::kFloat), v = normal({13, 3, 128}, at::kFloat);
  const auto all = [&] {
    return FactorList{message_sum(x, w, pairs),         message_product(x, x, pairs),
                      directed_sum(x, w, u, pairs),     directed_dot(v, w, u, pairs),
                      directed_product(v, x, u, pairs), direction_product(v, x, w, pairs)};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const FactorList one = all();
  at::set_num_threads(3);
  const FactorList three = all();
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(MessagesTest, OfNoEdgesAndNoAtomsAreEmptyOrZero) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  for (const int64_t atoms : {0, 4}) {
    Segments none = segments_of(at::zeros({0}, options), atoms);
    const Pairs pairs = pairs_of(none, none, at::zeros({0}, options), at::zeros({0}, options));
    EXPECT_TRUE(message_sum(normal({atoms, 5}), normal({0, 5}), pairs).equal(at::zeros({atoms, 5}, at::kDouble)));
    EXPECT_EQ(message_product(normal({atoms, 5}), normal({atoms, 5}), pairs).sizes(), (std::vector<int64_t>{0, 5}));
    EXPECT_TRUE(directed_sum(normal({atoms, 5}), normal({0, 5}), normal({0, 3}), pairs)
                    .equal(at::zeros({atoms, 3, 5}, at::kDouble)));
  }
}

TEST_F(MessagesTest, RoundSumsOfHalfPrecisionOnce) {
  const Pairs pairs = drawn_pairs(true);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = normal({13, 33}, type), w = normal({pairs.num_pairs(), 33}, type);
    EXPECT_TRUE(message_sum(x, w, pairs).equal(message_sum(x.to(at::kFloat), w.to(at::kFloat), pairs).to(type)));
  }
}

}  // namespace
}  // namespace terrace::ops

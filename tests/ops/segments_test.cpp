// Compares sums and extremes over the edges of atoms, and their first and second derivatives, with loops and
// with torch's own operations.
#include "terrace/ops/graphs/segments.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <vector>

namespace terrace::ops {
namespace {

class SegmentsTest : public ::testing::Test {
 protected:
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
    return at::randn(sizes, generator_, at::TensorOptions().dtype(at::kDouble)).to(type);
  }
  at::Tensor rows(int64_t elements, int64_t below) {
    return at::randint(0, below, {elements}, generator_, at::TensorOptions().dtype(at::kLong));
  }

 private:
  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(5);
};

at::Tensor torch_sum(const at::Tensor& x, const Segments& segments) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.front() = segments.num_rows();
  return at::index_add(at::zeros(sizes, x.options()), 0, segments.rows, x);
}

Segments without_order(const Segments& segments) { return {segments.rows, {}, segments.first}; }

TEST_F(SegmentsTest, SumsEqualTorchsForAnyOrderAndShape) {
  for (const auto& [elements, num_rows] : {std::pair<int64_t, int64_t>{0, 0}, {0, 4}, {1, 1}, {300, 7}, {77, 200}}) {
    for (const std::vector<int64_t>& columns : {std::vector<int64_t>{}, {1}, {131}, {3, 5}}) {
      std::vector<int64_t> sizes = {elements};
      sizes.insert(sizes.end(), columns.begin(), columns.end());
      const at::Tensor x = normal(sizes);
      const at::Tensor of = num_rows == 0 ? rows(0, 1) : rows(elements, num_rows);
      const Segments mixed = segments_of(of, num_rows);
      EXPECT_TRUE(segment_sum(x, mixed).allclose(torch_sum(x, mixed), 1e-13, 1e-13)) << elements << " " << num_rows;
      const Segments ascending = without_order(segments_of(std::get<0>(of.sort()), num_rows));
      EXPECT_TRUE(segment_sum(x, ascending).allclose(torch_sum(x, ascending), 1e-13, 1e-13));
      EXPECT_TRUE(gather(segment_sum(x, mixed), mixed).equal(at::index_select(segment_sum(x, mixed), 0, of)));
    }
  }
}

TEST_F(SegmentsTest, SumsAreThoseOfFp32RoundedOnce) {
  const Segments segments = segments_of(rows(500, 20), 20);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = normal({500, 40}, type);
    EXPECT_TRUE(segment_sum(x, segments).equal(segment_sum(x.to(at::kFloat), segments).to(type)));
  }
}

TEST_F(SegmentsTest, HaveTheSameBitsForAnyNumberOfThreads) {
  const Segments segments = segments_of(rows(5000, 300), 300);
  const at::Tensor x = normal({5000, 130}, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = segment_sum(x, segments), largest = segment_max(x, segments);
  at::set_num_threads(3);
  EXPECT_TRUE(segment_sum(x, segments).equal(one));
  EXPECT_TRUE(segment_max(x, segments).equal(largest));
  at::set_num_threads(threads);
}

TEST_F(SegmentsTest, ExtremesEqualLoopsAndShowNaN) {
  const Segments segments = segments_of(rows(90, 12), 12);
  const at::Tensor x = normal({90, 5}, at::kFloat).mul(2).round();  // with ties
  const at::Tensor largest = segment_max(x, segments), smallest = segment_min(x, segments);
  for (int64_t row = 0; row < 12; ++row) {
    const at::Tensor own = x.index_select(0, segments.rows.eq(row).nonzero().flatten());
    const bool none = own.size(0) == 0;
    EXPECT_TRUE(largest[row].equal(none ? at::zeros({5}) : own.amax(0))) << row;
    EXPECT_TRUE(smallest[row].equal(none ? at::zeros({5}) : own.amin(0))) << row;
  }
  const Segments single = segments_of(at::zeros({3}, at::kLong), 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& values : {std::vector<float>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}}) {
    const at::Tensor column = at::tensor(values).view({3, 1});
    EXPECT_TRUE(segment_max(column, single)[0].isnan().all().item<bool>());
    EXPECT_TRUE(segment_min(column, single)[0].isnan().all().item<bool>());
    EXPECT_EQ(segment_max(column, single)[1].item<float>(), 0);
  }
}

TEST_F(SegmentsTest, TheDerivativeOfAnExtremeGoesToItsFirstElement) {
  const at::Tensor x = at::tensor({1.0, 5.0, 5.0, 2.0}).view({4, 1}).set_requires_grad(true);
  const Segments segments = segments_of(at::zeros({4}, at::kLong), 1);
  const auto derivative = [&](const at::Tensor& y) {
    return torch::autograd::grad({y.sum()}, {x})[0].flatten().contiguous();
  };
  EXPECT_TRUE(derivative(segment_max(x, segments)).equal(at::tensor({0.0, 1.0, 0.0, 0.0})));
  EXPECT_TRUE(derivative(segment_min(x, segments)).equal(at::tensor({1.0, 0.0, 0.0, 0.0})));
}

// A network of messages: what one edge carries depends on both of its atoms, and the atoms' sums are not linear.
using Sum = at::Tensor (*)(const at::Tensor&, const Segments&);
using Gather = at::Tensor (*)(const at::Tensor&, const Segments&);

at::Tensor torch_gather(const at::Tensor& x, const Segments& segments) { return at::index_select(x, 0, segments.rows); }

at::Tensor energy(const at::Tensor& x, const Segments& receivers, const Segments& senders, Gather read, Sum sum) {
  const at::Tensor messages = read(x, receivers).mul(read(x, senders)).tanh();
  return sum(messages, receivers).pow(3).add(sum(messages.square(), senders).sin()).sum();
}

TEST_F(SegmentsTest, SecondDerivativesEqualTorchs) {
  const at::Tensor x = normal({11, 3}).set_requires_grad(true);
  const at::Tensor of = std::get<0>(rows(40, 11).sort());
  const Segments receivers = without_order(segments_of(of, 11)), senders = segments_of(rows(40, 11), 11);
  const at::Tensor direction = normal({11, 3});
  const auto derivatives = [&](Gather read, Sum sum) {
    const at::Tensor first = torch::autograd::grad({energy(x, receivers, senders, read, sum)}, {x}, {}, true, true)[0];
    const at::Tensor second = torch::autograd::grad({first.mul(direction).square().sum()}, {x})[0];
    return at::cat({first.detach(), second});
  };
  const at::Tensor own = derivatives(gather, segment_sum), torchs = derivatives(torch_gather, torch_sum);
  EXPECT_GT(torchs.abs().min().item<double>(), 0.0);
  EXPECT_TRUE(own.allclose(torchs, 1e-11, 1e-11));
}

TEST_F(SegmentsTest, GatheredSumsHaveTheBitsOfBothInTurn) {
  for (const std::vector<int64_t>& columns : {std::vector<int64_t>{}, {131}, {3, 5}}) {
    for (const int64_t edges : {0, 1, 400}) {
      const Segments senders = segments_of(rows(edges, 17), 17), mixed = segments_of(rows(edges, 11), 11);
      const Segments ascending = without_order(segments_of(std::get<0>(rows(edges, 11).sort()), 11));
      std::vector<int64_t> sizes = {17};
      sizes.insert(sizes.end(), columns.begin(), columns.end());
      for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const at::Tensor x = normal(sizes, type);
        for (const Segments& receivers : {mixed, ascending}) {
          const at::Tensor own = gathered_sum(x, senders, receivers);
          EXPECT_TRUE(own.equal(segment_sum(gather(x, senders), receivers))) << edges;
        }
      }
    }
  }
}

TEST_F(SegmentsTest, GatheredSumsHaveTheDerivativesOfBothInTurn) {
  const Segments senders = segments_of(rows(60, 17), 17), receivers = segments_of(rows(60, 11), 11);
  const at::Tensor x = normal({17, 3}).set_requires_grad(true), direction = normal({17, 3});
  const auto derivatives = [&](auto sums) {
    const at::Tensor first = torch::autograd::grad({sums().pow(3).sum()}, {x}, {}, true, true)[0];
    return at::cat({first.detach(), torch::autograd::grad({first.mul(direction).square().sum()}, {x})[0]});
  };
  const at::Tensor own = derivatives([&] { return gathered_sum(x, senders, receivers); });
  EXPECT_GT(own.abs().max().item<double>(), 0.0);
  EXPECT_TRUE(own.allclose(derivatives([&] { return torch_sum(torch_gather(x, senders), receivers); }), 1e-11, 1e-11));
}

}  // namespace
}  // namespace terrace::ops

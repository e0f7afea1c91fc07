// Compares the normalisation of rows that lie on several ranks with that of all rows on one, and with torch's batch
// norm.
#include "terrace/ops/elements/batch_norm.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace terrace::ops {
namespace {

// Ranks that are threads and sum through a list of their tensors.
struct SummedRanks {
  explicit SummedRanks(int64_t size) : own(static_cast<size_t>(size)), all_are_there(size) {}
  std::vector<at::Tensor> own;
  std::barrier<> all_are_there;
};

class SummingRank : public Ranks {
 public:
  SummingRank(SummedRanks& ranks, int64_t member) : ranks_(ranks), member_(member) {}
  int64_t size() const override { return static_cast<int64_t>(ranks_.own.size()); }
  int64_t member() const override { return member_; }
  std::unique_ptr<Pending> sum(const at::Tensor& data, const char*) override {
    ranks_.own[static_cast<size_t>(member_)] = data.clone();
    ranks_.all_are_there.arrive_and_wait();
    data.zero_();
    for (const at::Tensor& of_rank : ranks_.own) data.add_(of_rank);
    ranks_.all_are_there.arrive_and_wait();
    ++sums;
    return std::make_unique<Done>();
  }
  std::unique_ptr<Pending> sum_scatter(const at::Tensor&, const at::Tensor&, const char*) override {
    return unexpected();
  }
  std::unique_ptr<Pending> gather(const at::Tensor&, const at::Tensor&, const char*) override { return unexpected(); }

  int64_t sums = 0;

 private:
  struct Done : Pending {
    void wait() override {}
  };
  static std::unique_ptr<Pending> unexpected() {
    ADD_FAILURE() << "batch norm sums over ranks and does nothing else";
    return std::make_unique<Done>();
  }
  SummedRanks& ranks_;
  int64_t member_;
};

struct Normed {
  at::Tensor y, dx;
  RowStatistics statistics;
};

constexpr double epsilon = 1e-5;

Normed normed(const at::Tensor& x, const at::Tensor& dy, Ranks* ranks) {
  const at::AutoGradMode with_graph(true);
  const at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const NormalizedRows result = normalized_rows(leaf, epsilon, ranks);
  result.x.backward(dy);
  return {.y = result.x.detach(), .dx = leaf.grad(), .statistics = result.statistics};
}

at::Tensor drawn_rows(int64_t rows, int64_t columns, at::ScalarType type, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kDouble)).to(type);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

// The rows [first, last) of each rank; the results of all of them beside each other.
Normed normed_on_ranks(const at::Tensor& x, const at::Tensor& dy, const std::vector<int64_t>& rows) {
  SummedRanks ranks(std::ssize(rows));
  std::vector<Normed> found(rows.size());
  std::vector<std::jthread> threads;
  int64_t first = 0;
  for (size_t member = 0; member < rows.size(); ++member) {
    threads.emplace_back([&, member, first] {
      SummingRank rank(ranks, static_cast<int64_t>(member));
      found[member] = normed(x.narrow(0, first, rows[member]), dy.narrow(0, first, rows[member]), &rank);
      EXPECT_EQ(rank.sums, 3);
    });
    first += rows[member];
  }
  threads.clear();
  std::vector<at::Tensor> y, dx;
  for (const Normed& own : found) {
    y.push_back(own.y);
    dx.push_back(own.dx);
    EXPECT_TRUE(own.statistics.mean.equal(found[0].statistics.mean));
    EXPECT_TRUE(own.statistics.variance.equal(found[0].statistics.variance));
  }
  return {.y = at::cat(y), .dx = at::cat(dx), .statistics = found[0].statistics};
}

TEST(BatchNorm, OfRowsOnRanksIsThatOfAllRows) {
  for (const std::vector<int64_t>& rows :
       std::vector<std::vector<int64_t>>{{23}, {11, 12}, {23, 0}, {0, 20, 3}, {1, 0, 9, 13}}) {
    const at::Tensor x = drawn_rows(23, 5, at::kDouble, 1), dy = drawn_rows(23, 5, at::kDouble, 2);
    const Normed whole = normed(x, dy, nullptr), ours = normed_on_ranks(x, dy, rows);
    EXPECT_LE(largest_difference(ours.y, whole.y), 1e-14);
    EXPECT_LE(largest_difference(ours.dx, whole.dx), 1e-13);
    EXPECT_LE(largest_difference(ours.statistics.variance, whole.statistics.variance), 1e-14);
    EXPECT_EQ(ours.statistics.rows.item<double>(), 23.0);
  }
}

TEST(BatchNorm, IsTorchsInDoublePrecision) {
  const at::Tensor x = drawn_rows(23, 5, at::kDouble, 3), dy = drawn_rows(23, 5, at::kDouble, 4);
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const auto [y, mean, inverse] = at::native_batch_norm(leaf, {}, {}, {}, {}, /*training=*/true, 0.1, epsilon);
  y.backward(dy);
  const Normed ours = normed(x, dy, nullptr);
  EXPECT_LE(largest_difference(ours.y, y), 1e-13);
  EXPECT_LE(largest_difference(ours.dx, leaf.grad()), 1e-12);
  EXPECT_LE(largest_difference(ours.statistics.mean, mean), 1e-14);
  EXPECT_LE(largest_difference(ours.statistics.variance.add(epsilon).rsqrt(), inverse), 1e-13);
}

// A sum of squares less the square of the mean has no correct digit here in fp32, and the rounding of a number near
// 10,000 is 5e-4.
TEST(BatchNorm, KeepsItsDigitsFarFromZero) {
  const at::Tensor x = drawn_rows(400, 3, at::kFloat, 5).add(10000.0);
  const Normed ours = normed(x, drawn_rows(400, 3, at::kFloat, 6), nullptr);
  const Normed exact = normed(x.to(at::kDouble), drawn_rows(400, 3, at::kDouble, 6), nullptr);
  EXPECT_LE(largest_difference(ours.statistics.variance, exact.statistics.variance), 1e-6);
  EXPECT_LE(largest_difference(ours.y, exact.y), 2e-3);
}

TEST(BatchNorm, OfNoRowAndOfOneIsFinite) {
  for (const int64_t rows : {0, 1}) {
    const Normed ours = normed(drawn_rows(rows, 4, at::kFloat, 7), drawn_rows(rows, 4, at::kFloat, 8), nullptr);
    EXPECT_EQ(ours.y.sizes(), (std::vector<int64_t>{rows, 4}));
    EXPECT_EQ(ours.y.count_nonzero().item<int64_t>(), 0);
    EXPECT_TRUE(ours.dx.isfinite().all().item<bool>());
    EXPECT_EQ(ours.statistics.variance.count_nonzero().item<int64_t>(), 0);
  }
}

TEST(BatchNorm, RefusesASecondDerivative) {
  const at::Tensor x = drawn_rows(5, 2, at::kDouble, 9).requires_grad_(true);
  const at::Tensor y = normalized_rows(x, epsilon, nullptr).x.square().sum();
  EXPECT_THROW(y.backward({}, /*retain_graph=*/true, /*create_graph=*/true), std::runtime_error);
}

}  // namespace
}  // namespace terrace::ops

// The loss of a cut vocabulary: blocks of rows change no bit, and take little memory beside the logits.
#include "terrace/ops/loss/cut_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <memory>

#include "terrace/memory/meter.h"

namespace terrace::ops {
namespace {

// The only rank of a vocabulary that is cut in one part.
class OneRank : public Ranks {
 public:
  int64_t size() const override { return 1; }
  int64_t member() const override { return 0; }
  std::unique_ptr<Pending> sum(const at::Tensor&, const char*) override { return std::make_unique<Done>(); }
  std::unique_ptr<Pending> sum_scatter(const at::Tensor& from, const at::Tensor& to, const char*) override {
    to.copy_(from.select(0, 0));
    return std::make_unique<Done>();
  }
  std::unique_ptr<Pending> gather(const at::Tensor& own, const at::Tensor& whole, const char*) override {
    whole.select(0, 0).copy_(own);
    return std::make_unique<Done>();
  }

 private:
  struct Done : Pending {
    void wait() override {}
  };
};

// More rows than one block has, and not a multiple of a block's.
constexpr int64_t rows = 1000, columns = 700, vocabulary = 690;

at::Tensor logits_of(at::ScalarType type) { return at::randn({rows, columns}, at::TensorOptions()).mul_(3).to(type); }

TEST(CutCrossEntropy, ComputesEachRowByItself) {
  OneRank ranks;
  const Cut cut{.ranks = &ranks, .dim = 0};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor targets = at::randint(-1, vocabulary, {rows}, at::TensorOptions().dtype(at::kLong));
    const at::Tensor whole = logits_of(type), by_row = whole.clone();
    const at::Tensor losses = at::empty({rows}, at::TensorOptions().dtype(at::kDouble)), row_losses = losses.clone();
    cut_cross_entropy(cut, whole, targets, vocabulary, 0.5, losses);
    for (int64_t row = 0; row < rows; ++row) {
      cut_cross_entropy(cut, by_row.narrow(0, row, 1), targets.narrow(0, row, 1), vocabulary, 0.5,
                        row_losses.narrow(0, row, 1));
    }
    EXPECT_TRUE(at::equal(losses, row_losses)) << at::toString(type);
    EXPECT_TRUE(at::equal(whole, by_row)) << at::toString(type);
  }
}

TEST(CutCrossEntropy, TakesLessMemoryThanAQuarterOfTheLogits) {
  OneRank ranks;
  const Cut cut{.ranks = &ranks, .dim = 0};
  const int64_t many = 8 * rows;
  const at::Tensor logits = at::randn({many, columns}, at::TensorOptions());
  const at::Tensor targets = at::randint(0, vocabulary, {many}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor losses = at::empty({many}, at::TensorOptions().dtype(at::kDouble));
  const auto meter = std::make_shared<memory::Meter>();
  const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
  cut_cross_entropy(cut, logits, targets, vocabulary, 1.0, losses);
  EXPECT_LT(meter->peak, static_cast<int64_t>(logits.nbytes()) / 4);
}

}  // namespace
}  // namespace terrace::ops

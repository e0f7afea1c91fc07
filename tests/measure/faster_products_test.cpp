// Tests the choice between our products and torch's: its margin, its classes, and that a busy machine does not change
// it.
#include "terrace/measure/faster_products.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "terrace/measure/processor_time.h"
#include "terrace/ops/products.h"
#include "tests/measure/busy_machine.h"

namespace terrace::measure {
namespace {

using ops::Products;
using ops::ProductsByClass;
using ops::WeightClass;

const std::set<WeightClass> every_class{ops::weight_classes.begin(), ops::weight_classes.end()};

bool has_own(at::ScalarType type) {
  return ops::products_instructions(at::kCPU, type, Products::own) != std::string("torch");
}

TEST(FasterProducts, AreTorchsOnlyIfTheyAreClearlyFaster) {
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 50}.faster()), Products::own);
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 110}.faster()), Products::own);
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 130}.faster()), Products::torch);
}

TEST(FasterProducts, AreTorchsWithoutOurInstructionsAndOnAGpu) {
  EXPECT_TRUE(measured_products(at::kDouble, every_class).empty());
  EXPECT_EQ(faster_products(at::kCPU, at::kDouble, every_class), ProductsByClass::all(Products::torch));
  EXPECT_EQ(faster_products(at::kCUDA, at::kFloat, every_class), ProductsByClass::all(Products::torch));
}

TEST(FasterProducts, AreMeasuredForTheClassesThatAreAsked) {
  if (!has_own(at::kFloat)) GTEST_SKIP() << "this processor has no instructions for our products";
  const std::vector<MeasuredProduct> products = measured_products(at::kFloat, {WeightClass::small, WeightClass::tall});
  ASSERT_EQ(products.size(), 6u);
  for (size_t i = 0; i < products.size(); ++i) {
    EXPECT_EQ(products[i].weights, i < 3 ? WeightClass::small : WeightClass::tall);
    EXPECT_EQ(products[i].product.name, ops::named_products[i % 3].name);
    EXPECT_GT(products[i].own, 0);
    EXPECT_GT(products[i].torch, 0);
  }
  EXPECT_EQ(faster_products(at::kCPU, at::kFloat, {}), ProductsByClass{});
}

// Torch has no fast products of fp16 on many processors, and they must not take long at the start of a run.
TEST(FasterProducts, AreChosenInATenthOfASecondEach) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double start = processor_seconds();
    const std::vector<MeasuredProduct> products = measured_products(type, every_class);
    // Allows for a processor with a fifth of the speed for which the shapes were chosen.
    EXPECT_LE(processor_seconds() - start, 0.5 * static_cast<double>(products.size())) << at::toString(type);
  }
}

// The bits of a run depend on the choice. Where the two kinds are as fast as the margin, either choice is right.
TEST(FasterProducts, AreTheSameOnABusyMachine) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::vector<MeasuredProduct> alone = measured_products(type, {WeightClass::medium});
    const BusyMachine busy;
    const std::vector<MeasuredProduct> again = measured_products(type, {WeightClass::medium});
    ASSERT_EQ(again.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      const double ratio = alone[i].torch / alone[i].own;
      if (ratio > 1.0 && ratio < 1.3) continue;
      EXPECT_EQ(again[i].faster(), alone[i].faster())
          << at::toString(type) << " " << ops::name_of(alone[i].weights) << " " << alone[i].product.name << ": "
          << ratio << " alone, " << again[i].torch / again[i].own << " on the busy machine";
    }
    EXPECT_EQ(at::get_num_threads(), 2);
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace terrace::measure

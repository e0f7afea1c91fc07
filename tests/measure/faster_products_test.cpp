// Tests the choice between our products and torch's: its margin, its classes, and how often each is measured, with a
// clock that the test sets.
#include "terrace/measure/faster_products.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>

#include "terrace/ops/products/products.h"

namespace terrace::measure {
namespace {

using ops::Products;
using ops::ProductsByClass;
using ops::WeightClass;

const std::set<WeightClass> every_class{ops::weight_classes.begin(), ops::weight_classes.end()};

bool has_own(at::ScalarType type) {
  return ops::products_instructions(at::kCPU, type, Products::own) != std::string("torch");
}

TEST(FasterProducts, TorchOnlyIfClearlyFaster) {
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 50}.faster()), Products::own);
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 110}.faster()), Products::own);
  EXPECT_EQ((MeasuredProduct{.own = 100, .torch = 130}.faster()), Products::torch);
}

TEST(FasterProducts, TorchIfOwnInstructionsAreMissingOrOnAGpu) {
  EXPECT_TRUE(measured_products(at::kDouble, every_class).empty());
  EXPECT_EQ(faster_products(at::kCPU, at::kDouble, every_class), ProductsByClass::all(Products::torch));
  EXPECT_EQ(faster_products(at::kCUDA, at::kFloat, every_class), ProductsByClass::all(Products::torch));
}

TEST(FasterProducts, MeasuredForTheRequestedClasses) {
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

// A clock by which each of torch's products and of ours takes so many seconds. They are measured alternately, torch's
// first.
class FakeClock {
 public:
  FakeClock(double own, double torch) : own_(own), torch_(torch) {}

  double operator()() {
    ++readings_;
    if (readings_ % 2 == 0) now_ += readings_ / 2 % 2 == 1 ? torch_ : own_;
    return now_;
  }
  // The number of products of both kinds together.
  int products() const { return readings_ / 2; }

 private:
  double own_, torch_, now_ = 0;
  int readings_ = 0;
};

// Products that are measured until one of the three of a class is decided, the first four of them with few rows.
int products_until_decided(double own, double torch) {
  FakeClock clock(own, torch);
  const std::vector<MeasuredProduct> products = measured_products(at::kFloat, {WeightClass::small}, std::ref(clock));
  EXPECT_EQ(clock.products() % static_cast<int>(products.size()), 0);
  return clock.products() / static_cast<int>(products.size());
}

TEST(FasterProducts, MeasuredOnlyUntilDecided) {
  if (!has_own(at::kFloat)) GTEST_SKIP() << "this processor has no instructions for our products";
  EXPECT_EQ(products_until_decided(0.001, 0.001), 4 + 2 * 16);  // as often as is useful
  EXPECT_EQ(products_until_decided(0.02, 0.02), 4 + 2 * 3);     // more than a tenth of a second
  EXPECT_EQ(products_until_decided(0.002, 0.004), 4 + 2 * 3);   // one is faster by far
  EXPECT_EQ(products_until_decided(0.001, 0.005), 4 + 2);       // by very far
  EXPECT_EQ(products_until_decided(0.001, 0.02), 4);            // torch would take two thirds of a second for all rows
}

TEST(FasterProducts, FollowTheClock) {
  if (!has_own(at::kFloat)) GTEST_SKIP() << "this processor has no instructions for our products";
  for (const Products faster : {Products::own, Products::torch}) {
    FakeClock clock(faster == Products::own ? 0.001 : 0.002, faster == Products::own ? 0.002 : 0.001);
    for (const MeasuredProduct& product : measured_products(at::kFloat, {WeightClass::tall}, std::ref(clock))) {
      EXPECT_EQ(product.faster(), faster) << product.product.name;
    }
  }
}

}  // namespace
}  // namespace terrace::measure

// Checks into which class a weight falls.
#include "terrace/ops/products/product_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace terrace::ops {
namespace {

TEST(WeightClass, FollowsTheSmallerDimensionBelow8OutputsPerInput) {
  const auto of = [](const std::vector<int64_t>& shape) { return weight_class_of(shape); };
  EXPECT_EQ(of({1, 1}), WeightClass::small);
  EXPECT_EQ(of({768, 511}), WeightClass::small);
  EXPECT_EQ(of({511, 100000}), WeightClass::small);
  EXPECT_EQ(of({512, 512}), WeightClass::medium);
  EXPECT_EQ(of({768, 3072}), WeightClass::medium);
  EXPECT_EQ(of({8 * 768 - 1, 768}), WeightClass::medium);
  EXPECT_EQ(of({8 * 768, 768}), WeightClass::tall);
  EXPECT_EQ(of({2047, 8192}), WeightClass::medium);
  EXPECT_EQ(of({2048, 2048}), WeightClass::large);
  EXPECT_EQ(of({28672, 8192}), WeightClass::large);
  EXPECT_EQ(of({128256, 8192}), WeightClass::tall);
  EXPECT_EQ(of({16, 1, 3}), of({16, 3}));
}

TEST(ProductsByClass, OneKindIsEqualInEveryClass) {
  for (const Products products : {Products::own, Products::torch}) {
    const ProductsByClass all = ProductsByClass::all(products);
    for (const WeightClass weights : weight_classes) {
      for (const NamedProduct& product : named_products) EXPECT_EQ(all[weights].*product.choice, products);
    }
  }
  EXPECT_EQ(ProductsByClass{}, ProductsByClass::all(Products::own));
}

}  // namespace
}  // namespace terrace::ops

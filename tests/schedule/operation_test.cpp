// Compares FLOPs and bytes of operations with those worked out by hand.
#include "terrace/schedule/operation.h"

#include <gtest/gtest.h>

#include <tuple>

namespace terrace::schedule {
namespace {

TEST(Operation, ProductHasTwoFlopsPerMultiplyAdd) {
  Operation product = matrix_product("logits", 3, 5, 7, 2);
  EXPECT_EQ(product.flops(), 2 * 3 * 5 * 7);
  EXPECT_EQ(product.bytes, 2 * (3 * 7 + 7 * 5 + 3 * 5));
  product.count = 4;
  EXPECT_EQ(product.flops(), 4 * 2 * 3 * 5 * 7);
}

TEST(Operation, AttentionHasTwoForwardAndUpToFiveBackwardProducts) {
  // Two heads of 4 queries, 6 keys and width 3.
  Operation attention{.kind = Operation::Kind::attention, .m = 4, .n = 6, .k = 3, .count = 2};
  constexpr double one_product = 2 * 4 * 6 * 3 * 2;
  EXPECT_EQ(attention.flops(), 2 * one_product);
  attention.backward = true;
  EXPECT_EQ(attention.flops(), 5 * one_product);
  attention.causal = true;
  EXPECT_EQ(attention.flops(), 2.5 * one_product);
  // Without a fused kernel all scores are computed, but only once.
  attention.fused = false;
  EXPECT_EQ(attention.flops(), 4 * one_product);
  attention.backward = false;
  EXPECT_EQ(attention.flops(), 2 * one_product);
}

TEST(Operation, MemoryPassHasNoFlops) {
  EXPECT_EQ(memory_pass("norm", 80, 2), (Operation{.name = "norm", .count = 2, .bytes = 80}));
  EXPECT_EQ(memory_pass("norm", 80).flops(), 0);
}

TEST(Operation, LinearLayerHasThreeProductsOfTheSameFlops) {
  const LinearLayer layer{.name = "output", .rows = 10, .inputs = 3, .outputs = 4, .element_bytes = 2};
  const Operation forward = forward_product(layer), input = input_gradient_product(layer),
                  weight = weight_gradient_product(layer);
  // y [10, 4] = x [10, 3] W^T, dx [10, 3] = dy [10, 4] W and dW [4, 3] = dy^T [4, 10] x.
  EXPECT_EQ((std::tuple{forward.m, forward.n, forward.k}), (std::tuple{10, 4, 3}));
  EXPECT_EQ((std::tuple{input.m, input.n, input.k}), (std::tuple{10, 3, 4}));
  EXPECT_EQ((std::tuple{weight.m, weight.n, weight.k}), (std::tuple{4, 3, 10}));
  for (const Operation& one : {forward, input, weight}) EXPECT_EQ(one.flops(), 240);
  EXPECT_EQ(forward.bytes, 2 * (10 * 4 + 10 * 3 + 4 * 3));
  EXPECT_EQ(input.bytes, forward.bytes);
  // The fp32 gradient is read and written.
  EXPECT_EQ(weight.bytes, 2 * (10 * 4 + 10 * 3) + 2 * 4 * (4 * 3));
  // Sums over the rows of dy that the rank answers for, added to the bias gradient.
  EXPECT_EQ(bias_gradient_sums(layer, 5).bytes, 2 * (5 * 4) + 2 * 4 * 4);
}

}  // namespace
}  // namespace terrace::schedule

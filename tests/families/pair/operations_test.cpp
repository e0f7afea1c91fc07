// Compares the operations of the pairs' units with the FLOPs of their table and with a layer worked out by hand.
#include <gtest/gtest.h>

#include "tests/families/pair/model.h"

namespace terrace::pair {
namespace {

using schedule::Operation;
using schedule::UnitRow;
using schedule::UnitTable;

double flops(const std::vector<Operation>& operations) {
  double sum = 0;
  for (const Operation& one : operations) sum += one.flops();
  return sum;
}

TEST(FamilyOperations, FlopsEqualTheUnitTable) {
  const UnitTable table = unit_table({.layers = 3, .width = 8}, {.sizes = {{"items", 5}}});
  for (const UnitRow& row : table) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(flops(row.operations.forward), row.forward_flops);
    EXPECT_EQ(flops(row.operations.input_gradient), row.input_gradient_flops);
    EXPECT_EQ(flops(row.operations.weight_gradient), row.weight_gradient_flops);
    EXPECT_GT(row.forward_flops, 0);
  }
  // The features are data.
  EXPECT_EQ(table.front().input_gradient_flops, 0);
}

TEST(FamilyOperations, LayerMatchesHandCalculation) {
  const UnitTable table = unit_table({.layers = 2, .width = 8}, {.sizes = {{"items", 5}}, .element_bytes = 2});
  const schedule::Operations& layer = table[2].operations;
  ASSERT_EQ(layer.forward.size(), 4u);
  EXPECT_EQ(layer.forward[0], schedule::matrix_product("wide", 5, 8, 8, 2));
  EXPECT_EQ(layer.forward[1], schedule::matrix_product("narrow", 5, 3, 3, 2));
  EXPECT_EQ(layer.forward[2], schedule::memory_pass("sum", 3 * (5 * 8) * 2));
  EXPECT_EQ(layer.forward[3], schedule::memory_pass("sum", 3 * (5 * 3) * 2));
  ASSERT_EQ(layer.weight_gradient.size(), 4u);
  EXPECT_EQ(layer.weight_gradient[0].bytes, 2 * (5 * 8 + 5 * 8) + 2 * 4 * (8 * 8));
  EXPECT_EQ(layer.weight_gradient[1], schedule::memory_pass("add_column_sums", 2 * (5 * 8) + 2 * 4 * 8));
  EXPECT_TRUE(layer.forward_collectives.empty());
}

}  // namespace
}  // namespace terrace::pair

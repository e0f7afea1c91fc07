// Formulas of a few structures.
#include "terrace/data/graphs/structures/formula.h"

#include <gtest/gtest.h>

#include <array>

namespace terrace::data {
namespace {

TEST(Formula, HasHillsOrder) {
  EXPECT_EQ(formula_of(std::array<uint8_t, 9>{8, 6, 1, 1, 1, 6, 1, 1, 1}), "C2H6O");
  EXPECT_EQ(formula_of(std::array<uint8_t, 3>{8, 1, 1}), "H2O");
  EXPECT_EQ(formula_of(std::array<uint8_t, 4>{17, 11, 17, 11}), "Cl2Na2");
  EXPECT_EQ(formula_of(std::array<uint8_t, 3>{35, 6, 9}), "CBrF");
  EXPECT_EQ(formula_of(std::array<uint8_t, 2>{0, 0}), "X2");
  EXPECT_EQ(formula_of({}), "");
}

}  // namespace
}  // namespace terrace::data

// Checks the bytes of values on the wire against sizes worked out by hand.
#include "terrace/config/wire_type.h"

#include <gtest/gtest.h>

namespace terrace::config {
namespace {

TEST(WireBytes, CountCodesAndAScaleForEachBlock) {
  EXPECT_EQ(wire_bytes(WireType::same, 1000, 2), 2000);
  EXPECT_EQ(wire_bytes(WireType::fp32, 1000, 2), 4000);
  EXPECT_EQ(wire_bytes(WireType::bf16, 1000, 4), 2000);
  EXPECT_EQ(wire_bytes(WireType::int8, 1000, 4), 1000 + 4 * 4);
  EXPECT_EQ(wire_bytes(WireType::fp8, 1024, 4), 1024 + 4 * 4);
  EXPECT_EQ(wire_bytes(WireType::int4, 1025, 2), 513 + 5 * 4);
  EXPECT_EQ(wire_bytes(WireType::int4, 0, 2), 0);
}

TEST(WireTypes, RoundWhereTheyHaveFewerBits) {
  EXPECT_TRUE(rounds(WireType::bf16, 4));
  EXPECT_FALSE(rounds(WireType::bf16, 2));
  EXPECT_TRUE(rounds(WireType::int8, 2));
  EXPECT_FALSE(rounds(WireType::fp32, 2));
  EXPECT_FALSE(rounds(WireType::same, 2));
}

}  // namespace
}  // namespace terrace::config

// Tests the words for sizes.
#include "terrace/base/text/sizes.h"

#include <gtest/gtest.h>

namespace terrace {
namespace {

TEST(SizesText, NamesEachSizeWithItsNumber) {
  EXPECT_EQ(sizes_text({}), "");
  EXPECT_EQ(sizes_text({{"atoms", 1024}}), "1,024 atoms");
  EXPECT_EQ(sizes_text({{"edges", 8192}, {"atoms", 1024}}), "1,024 atoms and 8,192 edges");
  EXPECT_EQ(sizes_text({{"a", 1}, {"b", 2}, {"c", 3}}), "1 a, 2 b and 3 c");
}

}  // namespace
}  // namespace terrace

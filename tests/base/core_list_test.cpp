// Lists of cores, both ways.
#include "terrace/base/system/core_list.h"

#include <gtest/gtest.h>

#include <string>

namespace terrace {
namespace {

TEST(CoreList, AsTheKernelWritesThem) {
  CoreMask mask;
  for (const size_t core : {0, 3, 4, 5, 64}) mask[core] = true;
  EXPECT_EQ(list_of_cores(mask), "0,3-5,64");
  EXPECT_EQ(list_of_cores(CoreMask()), "");
  for (const std::string list : {"0,3-5,64", "0-127", "1023", ""}) EXPECT_EQ(list_of_cores(cores_of_list(list)), list);
  EXPECT_EQ(cores_of_list("7-6,2000,x"), CoreMask());
}

}  // namespace
}  // namespace terrace

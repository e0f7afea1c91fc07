// What is recorded about threads and kernels, and what a run says where they differ.
#include "terrace/train/kernel_record.h"

#include <gtest/gtest.h>

namespace terrace::train {
namespace {

TEST(KernelRecord, IsTheSameTwiceOnOneMachine) {
  EXPECT_EQ(kernel_differences(kernel_record(2, 4, at::kCPU), kernel_record(2, 4, at::kCPU)), "");
}

TEST(KernelRecord, SaysWhatDiffers) {
  EXPECT_EQ(kernel_differences(kernel_record(2, 4, at::kCPU), kernel_record(4, 4, at::kCPU)), "threads 2 -> 4");
  Json other = kernel_record(1, 4, at::kCPU);
  other["vector_instructions"] = "NONE OF THIS WORLD";
  EXPECT_NE(kernel_differences(other, kernel_record(1, 4, at::kCPU)).find("vector_instructions"), std::string::npos);
  EXPECT_NE(kernel_differences(Json::object(), kernel_record(1, 4, at::kCPU)).find("threads null -> 1"),
            std::string::npos);
}

}  // namespace
}  // namespace terrace::train

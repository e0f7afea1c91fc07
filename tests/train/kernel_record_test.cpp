// Tests what is recorded about threads and kernels, and how a run describes differences between two records.
#include "terrace/train/kernel_record.h"

#include <gtest/gtest.h>

namespace terrace::train {
namespace {

Json facts(int64_t threads) { return kernel_record({.threads = threads, .micro_batch = 4}); }

TEST(KernelRecord, HoldsTheChoiceThatARunContinuesWith) {
  for (const ops::Products products : {ops::Products::own, ops::Products::torch}) {
    for (const ops::AttentionChoice attention : {ops::AttentionChoice::fastest, ops::AttentionChoice::torch}) {
      const ops::KernelChoice choice{products, attention};
      const Json record = kernel_record({.choice = choice});
      EXPECT_EQ(kernel_record({.choice = recorded_choice(record)}), record);
    }
  }
  const Json torchs = kernel_record({.choice = {ops::Products::torch, ops::AttentionChoice::torch}});
  EXPECT_EQ(torchs.at("products"), "torch");
  EXPECT_EQ(torchs.at("attention"), "torch");
}

TEST(KernelRecord, IsTheSameTwiceOnOneMachine) { EXPECT_EQ(kernel_differences(facts(2), facts(2)), ""); }

TEST(KernelRecord, SaysWhatDiffers) {
  EXPECT_EQ(kernel_differences(facts(2), facts(4)), "threads 2 -> 4");
  Json other = facts(1);
  other["vector_instructions"] = "NONE OF THIS WORLD";
  EXPECT_NE(kernel_differences(other, facts(1)).find("vector_instructions"), std::string::npos);
  EXPECT_NE(kernel_differences(Json::object(), facts(1)).find("threads null -> 1"), std::string::npos);
}

}  // namespace
}  // namespace terrace::train

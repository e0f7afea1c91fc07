// Checks which kernels of attention torch may choose on a GPU while verify compares bits.
#include "terrace/verify/deterministic_kernels.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <vector>

namespace terrace::verify {
namespace {

// Whether torch may use each of its kernels of attention: flash, memory-efficient, cuDNN's, separate products.
std::vector<bool> attention_kernels() {
  const at::Context& torch = at::globalContext();
  return {torch.userEnabledFlashSDP(), torch.userEnabledMemEfficientSDP(), torch.userEnabledCuDNNSDP(),
          torch.userEnabledMathSDP()};
}

class DeterministicKernels : public testing::Test {
 protected:
  void TearDown() override {
    at::Context& torch = at::globalContext();
    torch.setDeterministicAlgorithms(false, false);
    torch.setDeterministicCuDNN(false);
    torch.setSDPUseMath(true);
    torch.setSDPUseFlash(true);
    torch.setSDPUseMemEfficient(true);
    torch.setSDPUseCuDNN(true);
  }
};

TEST_F(DeterministicKernels, AttentionOfAGpuIsComputedBySeparateProductsAlone) {
  const at::Context& torch = at::globalContext();
  use_deterministic_kernels(at::Device(at::kCUDA, 0));
  EXPECT_EQ(attention_kernels(), (std::vector<bool>{false, false, false, true}));
  EXPECT_TRUE(torch.deterministicAlgorithms());
  EXPECT_TRUE(torch.deterministicCuDNN());
  EXPECT_FALSE(torch.benchmarkCuDNN());
}

TEST_F(DeterministicKernels, NothingChangesForACpu) {
  const std::vector<bool> before = attention_kernels();
  use_deterministic_kernels(at::kCPU);
  EXPECT_EQ(attention_kernels(), before);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

}  // namespace
}  // namespace terrace::verify

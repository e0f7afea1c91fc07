// Tests predictions whose transformer blocks multiply 8-bit floats.
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/plan/prediction.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// On a machine that only computes, products in fp8 at a rate without limit leave those of the head: of [16, 24] x [24,
// 64] 64 tiles in 32 rounds of 2 * 16 * 24 FLOPs at 500 FLOP/s, 49.152 s in forward and as long for each gradient, in
// each of 8 micro-batches.
TEST(Fp8Products, AreThoseOfBlocksAlone) {
  Target target{.machine = computing_machine(), .software = {}, .devices = 1};
  target.machine.device.fp8 = {.peak = 1e30, .achievable = 1e30};
  config::Config config = small_gpt(4);
  config.train.precision = config::Precision::bf16;
  const Prediction in_bf16 = predict(config, target);
  target.block_products = BlockProducts::fp8;
  const Prediction in_fp8 = predict(config, target);
  EXPECT_NEAR(in_fp8.stages[0].computation.of(TimeKind::products), 8 * 3 * 49.152, 1e-6);
  EXPECT_GT(in_bf16.stages[0].computation.of(TimeKind::products), 8 * 3 * 49.152 * 2);
  EXPECT_EQ(in_fp8.stages[0].computation.of(TimeKind::attention),
            in_bf16.stages[0].computation.of(TimeKind::attention));
  EXPECT_EQ(in_fp8.stages[0].memory.total(), in_bf16.stages[0].memory.total());
  EXPECT_EQ(in_fp8.peak_flops, 2000);  // that of bf16
}

TEST(Fp8Products, NeedTheirRatesAndARunInBf16) {
  const auto refusal = [](const config::Config& config, const Target& target) -> std::string {
    try {
      planned_run(config, target);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  Target target{.machine = small_machine(), .software = {}, .devices = 1};
  target.block_products = BlockProducts::fp8;
  config::Config config = small_gpt(4);
  const std::string no_rates =
      "--products fp8: small has no [device.fp8]; add it with peak and achievable, or name alps, dgx-b200, dgx-h100, "
      "dgx-h200, gb200-nvl72, mi300x, mi325x or mi355x";
  EXPECT_EQ(refusal(config, target),
            "--products fp8: it is for transformers in bf16, and train.precision is fp32; set it to bf16, or leave the "
            "option out\n" +
                no_rates);
  config.train.precision = config::Precision::bf16;
  EXPECT_EQ(refusal(config, target), no_rates);
  target.machine.device.fp8 = {.peak = 4000, .achievable = 2000};
  EXPECT_EQ(refusal(config, target), "");
}

}  // namespace
}  // namespace terrace::plan

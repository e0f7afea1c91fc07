// A calibration on ranks as threads describes a machine that can be written, read and predicted on.
#include "terrace/measure/calibrate.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/comm/threads/threads.h"

namespace terrace::measure {
namespace {

using config::Precision;

TEST(Calibrate, DescribesTheMachineOfItsRanks) {
  at::set_num_threads(1);
  std::vector<machine::Machine> machines(2);
  std::vector<double> shares;
  comm::run_threads(2, {}, [&](comm::World& world) {
    CalibrationOptions options{.quick = true, .name = "ours", .memory_bytes = 1e9, .types = {at::kFloat}};
    if (world.rank() == 0) options.progress = [&](double share, const std::string&) { shares.push_back(share); };
    machines[static_cast<size_t>(world.rank())] = calibrate(world, at::kCPU, options);
  });
  const machine::Machine& machine = machines[0];
  EXPECT_EQ(machines[1], machine);
  EXPECT_EQ(machine::parse(machine::dump(machine), "ours.toml"), machine);
  EXPECT_EQ(machine.devices(), 2);
  ASSERT_EQ(machine.tiers.size(), 1u);
  EXPECT_EQ(machine.tiers[0].name, "node");
  // Any processor that is used: between an old one and the fastest core.
  const machine::ComputeRate& fp32 = machine.device.rate(Precision::fp32);
  EXPECT_GT(fp32.achievable, 1e8);
  EXPECT_LT(fp32.peak, 1e13);
  EXPECT_GT(fp32.passes, 1e7);
  for (const double rate : {machine.device.encode, machine.device.encode_at_random, machine.device.decode}) {
    EXPECT_GT(rate, 1e7);
    EXPECT_LT(rate, 1e12);
  }
  EXPECT_EQ(machine.device.rate(Precision::bf16).achievable, 0);
  ASSERT_FALSE(shares.empty());
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_EQ(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
}

}  // namespace
}  // namespace terrace::measure

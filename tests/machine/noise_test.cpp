// Tests what a machine's [noise] may say, and that it is written as it is read.
#include "terrace/machine/noise.h"

#include <gtest/gtest.h>

#include "tests/machine/machine_cases.h"

namespace terrace::machine {
namespace {

std::string with_noise(const std::string& lines) { return valid_toml + "[noise]\n" + lines; }

TEST(Noise, IsReadAndWrittenWithEveryFigure) {
  const Machine machine = parse(with_noise("instruction_spread = 0.02\npause_every = \"60 s\"\npause = \"50 "
                                           "ms\"\nslow_devices = 0.001\nslow_by = 0.1\n"),
                                "ours.toml");
  const Noise expected{.instruction_spread = 0.02,
                       .pause_every_seconds = 60,
                       .pause_seconds = 0.05,
                       .slow_devices = 0.001,
                       .slow_by = 0.1};
  EXPECT_EQ(machine.noise, expected);
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
  EXPECT_NE(dump(machine).find("\n[noise]\ninstruction_spread = 0.02\npause_every = \"60 s\"\npause = \"50 ms\"\n"),
            std::string::npos);
}

TEST(Noise, DoesNotDecideHowMuchCallsSlowComputationDown) {
  const Machine machine =
      parse(with({{"attention = 0.5", "attention = 0.5\ncomputing_beside_calls = 1.25"}}), "ours.toml");
  EXPECT_EQ(machine.device.computing_beside_calls, 1.25);
  EXPECT_FALSE(machine.noise.is_stated());
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
  EXPECT_EQ(complaint(with({{"attention = 0.5", "attention = 0.5\ncomputing_beside_calls = 0.5"}})),
            "ours.toml:12:26: device.computing_beside_calls = 0.5 must be a number of at least 1 and at most 4");
}

TEST(Noise, OfAMachineThatStatesNoneIsLeftOut) {
  const Machine machine = parse(valid_toml, "ours.toml");
  EXPECT_FALSE(machine.noise.is_stated());
  EXPECT_EQ(dump(machine).find("noise"), std::string::npos);
  EXPECT_TRUE(parse(with_noise("instruction_spread = 0.01\n"), "ours.toml").noise.is_stated());
}

TEST(Noise, FiguresOutsideTheirBoundsAreRefused) {
  EXPECT_EQ(
      complaint(with_noise("instruction_spread = 2\npause_every = \"1 us\"\npause = \"0 s\"\nslow_devices = 0.75\n"
                           "slow_by = 10\n")),
      "5 problems in ours.toml:\n"
      "  ours.toml:47:22: noise.instruction_spread = 2 must be a number of at least 0 and at most 0.3\n"
      "  ours.toml:48:15: noise.pause_every = \"1 us\" must be from 1 s to 1000000 s\n"
      "  ours.toml:49:9: noise.pause = \"0 s\" must be from 1 us to 60 s\n"
      "  ours.toml:50:16: noise.slow_devices = 0.75 must be a number of at least 0 and at most 0.5\n"
      "  ours.toml:51:11: noise.slow_by = 10 must be a number of at least 0 and at most 4");
}

TEST(Noise, PausesAndSlowDevicesNeedBothFigures) {
  EXPECT_EQ(complaint(with_noise("pause = \"50 ms\"\n")),
            "ours.toml:47:9: noise.pause = \"50 ms\" needs pause_every, the mean time between two pauses of a device, "
            "such as \"60 s\"");
  EXPECT_EQ(complaint(with_noise("pause_every = \"60 s\"\n")),
            "ours.toml:46:1: noise.pause is missing, but pause_every is given; add the length of a pause, such as "
            "\"50 ms\"");
  EXPECT_EQ(complaint(with_noise("pause_every = \"10 s\"\npause = \"5 s\"\n")),
            "ours.toml:48:9: noise.pause = \"5 s\" is more than a tenth of pause_every, \"10 s\"; use at most \"1 s\"");
  EXPECT_EQ(complaint(with_noise("slow_by = 0.25\n")),
            "ours.toml:47:11: noise.slow_by = 0.25 needs slow_devices, the share of the devices that are slow, such as "
            "0.001");
  EXPECT_EQ(complaint(with_noise("slow_devices = 0.01\n")),
            "ours.toml:46:1: noise.slow_by is missing, but slow_devices is given; add how much longer they compute, "
            "such as 0.1 for a tenth");
}

}  // namespace
}  // namespace terrace::machine

// Tests the built-in descriptions: every one loads, is written and read back, and has the figures of its sources.
#include "terrace/machine/built_in.h"

#include <gtest/gtest.h>

#include "terrace/base/files/file.h"
#include "terrace/machine/software.h"
#include "tests/machine/machine_cases.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::machine {
namespace {

using config::Precision;

TEST(BuiltIn, EqualsTheFilesOfTheTree) {
  EXPECT_EQ(names(), (std::vector<std::string>{"dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100", "frontier",
                                               "grand-teton-500w", "laptop", "lumi"}));
  for (const BuiltIn& one : built_in_machines()) {
    EXPECT_EQ(one.toml, read_text(tests::source_dir() / one.file)) << one.name;
  }
}

TEST(BuiltIn, NamesFiguresAndDumpsReadBack) {
  for (const std::string& name : names()) {
    const Machine machine = load(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_FALSE(machine.about.empty()) << name;
    EXPECT_EQ(parse(dump(machine), name + ".toml"), machine);
    EXPECT_GT(machine.device.rate(Precision::bf16).peak, 0) << name;
    EXPECT_GT(machine.devices_of("node"), 1) << name;
    EXPECT_EQ(machine.tiers.back().devices, machine.devices());
  }
}

TEST(BuiltIn, FrontierHas9408NodesOfEightDies) {
  const Machine frontier = load("frontier");
  EXPECT_EQ(frontier.devices(), 75'264);
  EXPECT_EQ(frontier.devices_of("pair"), 2);
  EXPECT_EQ(frontier.devices_of("node"), 8);
  EXPECT_EQ(frontier.devices_of("group"), 1024);
  EXPECT_EQ(frontier.device.rate(Precision::bf16).peak, 191.5e12);
  EXPECT_EQ(frontier.device.rate(Precision::fp16).peak, 191.5e12);
  EXPECT_EQ(frontier.device.memory_bytes, 68'719'476'736);
  EXPECT_EQ(frontier.device.power_watts, 280);
  EXPECT_EQ(frontier.tiers[2].devices_per_link, 2);  // four NICs of a node of eight
}

TEST(BuiltIn, LumiHasFrontiersNodesInAnotherNetwork) {
  const Machine lumi = load("lumi"), frontier = load("frontier");
  EXPECT_EQ(lumi.device.memory_bytes, frontier.device.memory_bytes);
  EXPECT_EQ(lumi.device.rate(Precision::bf16).peak, frontier.device.rate(Precision::bf16).peak);
  EXPECT_EQ(lumi.tiers[0], frontier.tiers[0]);
  EXPECT_EQ(lumi.tiers[1], frontier.tiers[1]);
  EXPECT_EQ(lumi.devices(), 2978 * 8);
  EXPECT_EQ(lumi.devices_of("group"), 124 * 8);
}

TEST(BuiltIn, BothA100DifferInTheirMemory) {
  const Machine small = load("dgx-a100-40gb");
  Machine large = load("dgx-a100-80gb");
  EXPECT_EQ(small.devices(), 16'384);
  EXPECT_EQ(small.device.rate(Precision::bf16).peak, 312e12);
  EXPECT_EQ(small.device.memory_bytes, 42'949'672'960);
  EXPECT_EQ(large.device.memory_bytes, 85'899'345'920);
  EXPECT_LT(small.device.memory_bandwidth, 1.555e12);
  EXPECT_LT(large.device.memory_bandwidth, 2.039e12);
  large.device.name = small.device.name;
  for (const Precision type : {Precision::bf16, Precision::fp16}) {  // fitted to runs on these devices alone
    large.device.products[static_cast<size_t>(type)].achievable_together = small.device.rate(type).achievable_together;
  }
  large.device.memory_bytes = small.device.memory_bytes;
  large.device.memory_bandwidth = small.device.memory_bandwidth;
  EXPECT_EQ(large.device, small.device);
  EXPECT_EQ(large.tiers, small.tiers);
}

TEST(BuiltIn, DgxH100AndLaptopHaveTheirPublishedFigures) {
  const Machine hopper = load("dgx-h100");
  EXPECT_EQ(hopper.devices(), 16'384);
  EXPECT_EQ(hopper.device.rate(Precision::bf16).peak, 989.4e12);
  EXPECT_EQ(hopper.device.compute_units, 132);
  EXPECT_LT(hopper.tiers[0].link_bandwidth, 450e9);
  EXPECT_LT(hopper.tiers[1].link_bandwidth, 50e9);
  EXPECT_EQ(load("laptop").devices(), 4);
}

TEST(Load, ReadsAFileByItsPath) {
  const ScratchFolder folder;
  write_text_atomically(folder / "ours.toml", valid_toml);
  EXPECT_EQ(load((folder / "ours.toml").string()), parse(valid_toml, "ours.toml"));
  EXPECT_THROW(load((folder / "theirs.toml").string()), UserError);
}

TEST(Load, ListsTheNamesBesideAnUnknownOne) {
  const auto complaint_of = [](const std::string& name) {
    try {
      load(name);
      return std::string();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(
      complaint_of("frontire"),
      "there is no machine \"frontire\"; did you mean frontier? There are dgx-a100-40gb, dgx-a100-80gb, dgx-h100, "
      "frontier, grand-teton-500w, laptop and lumi, and a description of your own is a file whose "
      "name ends in .toml");
  EXPECT_EQ(complaint_of("x"),
            "there is no machine \"x\"; there are dgx-a100-40gb, dgx-a100-80gb, dgx-h100, "
            "frontier, grand-teton-500w, laptop and lumi, and a description of your own is a file whose "
            "name ends in .toml");
}

// Every key that a description has is explained.
TEST(Documentation, ExplainsEveryKey) {
  const std::string page = read_text(tests::source_dir() / "docs/machines.md");
  std::string text = dump(parse(valid_toml, "ours.toml"));
  for (const std::string& name : software_names())
    text += read_text(tests::source_dir() / ("machines/software/" + name + ".toml"));
  size_t keys = 0;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (equals == std::string::npos || line.starts_with('#')) continue;
    EXPECT_NE(page.find("`" + line.substr(0, equals) + "`"), std::string::npos) << line;
    ++keys;
  }
  EXPECT_GT(keys, 40U);
}

}  // namespace
}  // namespace terrace::machine

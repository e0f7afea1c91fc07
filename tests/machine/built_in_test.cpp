// Tests the built-in descriptions: every one loads, is written and read back, and has the figures of its sources.
#include "terrace/machine/built_in.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/base/files/file.h"
#include "terrace/machine/software.h"
#include "tests/machine/machine_cases.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::machine {
namespace {

using config::Precision;

TEST(BuiltIn, EqualsTheFilesOfTheTree) {
  EXPECT_EQ(names(), (std::vector<std::string>{"alps", "aurora", "dgx-a100-40gb", "dgx-a100-80gb", "dgx-b200",
                                               "dgx-h100", "dgx-h200", "frontier", "gb200-nvl72", "grand-teton-500w",
                                               "laptop", "lumi", "mi300x", "mi325x", "mi355x"}));
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

// Figures of data sheets and user guides. Achievable rates and links are below them.
struct Published {
  std::string machine;
  double bf16_peak, fp8_peak, fp32_peak;  // FLOP/s
  double memory_bytes;                    // as the driver reports it
  double memory_bandwidth;                // bytes/s
  int64_t compute_units;
  double watts;                 // 0: published for the module alone, with its CPU
  int64_t in_node, in_machine;  // devices
  double out_of_device;         // bytes/s in one direction, all links within the node together
  double out_of_node;           // bytes/s in one direction, all network cards of the node together
};

TEST(BuiltIn, MachinesOfTodayHaveTheirPublishedFigures) {
  constexpr double gib = 1024.0 * 1024 * 1024, mib = 1024.0 * 1024;
  const std::vector<Published> published = {
      {"dgx-h200", 989.4e12, 1978.9e12, 66.9e12, 143'771 * mib, 4.8e12, 132, 700, 8, 16'384, 450e9, 400e9},
      {"dgx-b200", 2250e12, 4500e12, 75e12, 183'359 * mib, 8e12, 148, 1000, 8, 16'384, 900e9, 400e9},
      {"gb200-nvl72", 2500e12, 5000e12, 80e12, 189'471 * mib, 8e12, 152, 1200, 4, 128 * 72, 900e9, 200e9},
      {"alps", 989.4e12, 1978.9e12, 66.9e12, 96 * gib, 4e12, 132, 0, 4, 2688 * 4, 450e9, 100e9},
      {"mi300x", 1307.4e12, 2614.9e12, 163.4e12, 192 * gib, 5.3e12, 304, 750, 8, 16'384, 448e9, 400e9},
      {"mi325x", 1307.4e12, 2614.9e12, 163.4e12, 256 * gib, 6e12, 304, 1000, 8, 16'384, 448e9, 400e9},
      {"mi355x", 2516.6e12, 5033.2e12, 157.3e12, 288 * gib, 8e12, 256, 1400, 8, 16'384, 537.6e9, 400e9},
      {"aurora", 367e12, 0, 22.9e12, 64 * gib, 1.6384e12, 56, 300, 12, 10'624 * 12, 140e9, 200e9},
  };
  for (const Published& figures : published) {
    const Machine machine = load(figures.machine);
    const Device& device = machine.device;
    EXPECT_EQ(device.rate(Precision::bf16).peak, figures.bf16_peak) << figures.machine;
    EXPECT_EQ(device.rate(Precision::fp16).peak, figures.bf16_peak) << figures.machine;
    EXPECT_EQ(device.fp8.peak, figures.fp8_peak) << figures.machine;
    EXPECT_EQ(device.rate(Precision::fp32).peak, figures.fp32_peak) << figures.machine;
    EXPECT_EQ(device.memory_bytes, figures.memory_bytes) << figures.machine;
    EXPECT_LT(device.memory_bandwidth, figures.memory_bandwidth) << figures.machine;
    EXPECT_GT(device.memory_bandwidth, 0.6 * figures.memory_bandwidth) << figures.machine;
    EXPECT_EQ(device.compute_units, figures.compute_units) << figures.machine;
    if (figures.watts > 0) {
      EXPECT_EQ(device.power_watts, figures.watts) << figures.machine;
    }
    EXPECT_EQ(machine.devices_of("node"), figures.in_node) << figures.machine;
    EXPECT_EQ(machine.devices(), figures.in_machine) << figures.machine;
    const auto node = std::ranges::find(machine.tiers, "node", &Tier::name);
    EXPECT_LT(node->link_bandwidth, figures.out_of_device) << figures.machine;
    // The tier after the node, or after the rack where the network begins.
    const Tier& network = machine.tiers[machine.devices_of("rack") > 1 ? 2 : node - machine.tiers.begin() + 1];
    const double cards = static_cast<double>(figures.in_node) / network.devices_per_link;
    EXPECT_LT(cards * network.link_bandwidth, figures.out_of_node) << figures.machine;
    EXPECT_GT(cards * network.link_bandwidth, 0.8 * figures.out_of_node) << figures.machine;
  }
}

TEST(BuiltIn, RacksOfGb200AreJoinedByNvlinkAndTilesOfAuroraInPairsAndGroups) {
  const Machine racks = load("gb200-nvl72");
  EXPECT_EQ(racks.devices_of("rack"), 72);
  EXPECT_EQ(racks.tiers[1].link_bandwidth, racks.tiers[0].link_bandwidth);
  const Machine aurora = load("aurora");
  EXPECT_EQ(aurora.devices_of("pair"), 2);
  EXPECT_EQ(aurora.devices_of("group"), 64 * 12);
  EXPECT_EQ(aurora.tiers[2].devices_per_link, 1.5);                                            // 8 NICs for 12 tiles
  EXPECT_NEAR(static_cast<double>(64 * 12) / aurora.tiers[3].devices_per_link, 2 * 165, 0.1);  // links to 165 groups
}

TEST(NamedIn, PrefersTheLongestWordOfAMachine) {
  EXPECT_EQ(named_in("NVIDIA H200"), "dgx-h200");
  EXPECT_EQ(named_in("GH200 96GB"), "alps");
  EXPECT_EQ(named_in("B200 180GB"), "dgx-b200");
  EXPECT_EQ(named_in("DGX GB200"), "gb200-nvl72");
  EXPECT_EQ(named_in("8x MI325X"), "mi325x");
  EXPECT_EQ(named_in("mi355x"), "mi355x");
  EXPECT_EQ(named_in("Intel Max 1550"), "aurora");
  EXPECT_EQ(named_in("H100"), "dgx-h100");
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
  const std::string listed =
      "alps, aurora, dgx-a100-40gb, dgx-a100-80gb, dgx-b200, dgx-h100, dgx-h200, frontier, gb200-nvl72, "
      "grand-teton-500w, laptop, lumi, mi300x, mi325x and mi355x";
  EXPECT_EQ(complaint_of("frontire"), "there is no machine \"frontire\"; did you mean frontier? There are " + listed +
                                          ", and a description of your own is a file whose name ends in .toml");
  EXPECT_EQ(complaint_of("x"), "there is no machine \"x\"; there are " + listed +
                                   ", and a description of your own is a file whose name ends in .toml");
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

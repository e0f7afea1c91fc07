// Tests descriptions of machines: what is read, what is refused with which message, and what dump() writes.
#include "terrace/machine/machine.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/machine/machine_cases.h"

namespace terrace::machine {
namespace {

using config::Precision;

TEST(Machine, ReadsEveryFigure) {
  const Machine machine = parse(valid_toml, "ours.toml");
  Device device{.name = "a GPU",
                .memory_bytes = 64e9,
                .reserved_bytes = 1'610'612'736,
                .memory_bandwidth = 1.6e12,
                .compute_units = 100,
                .tiles = {{256, 128, 1}, {64, 32, 0.5}},
                .tile_start = 64,
                .attention = 0.5,
                .kernel_seconds = 2e-6,
                .launch_seconds = 2.5e-6,
                .power_watts = 560};
  device.products[static_cast<size_t>(Precision::bf16)] = {191.5e12, 150e12};
  const Machine expected{
      .name = "ours",
      .about = "Ten nodes",
      .device = device,
      .tiers = {{"pair", 2, 100e9, 1, 1e-6}, {"node", 8, 50e9, 0.5, 2e-6}, {"network", 80, 25e9, 2, 5e-6}},
      .storage = {5e9, 20e9},
      .node_failure_hours = 500};
  EXPECT_EQ(machine, expected);
  EXPECT_EQ(machine.devices(), 80);
  EXPECT_EQ(machine.devices_of("node"), 8);
  EXPECT_EQ(machine.devices_of("group"), 1);
  EXPECT_EQ(machine.device.rate(Precision::bf16).peak, 191.5e12);
  EXPECT_EQ(machine.device.rate(Precision::fp16).peak, 0);
}

TEST(Machine, NamesTheTypesWhoseRatesItHasInsteadOfAMissingOne) {
  Machine machine = parse(valid_toml, "ours.toml");
  EXPECT_EQ(missing_rate(machine, Precision::bf16), "");
  EXPECT_EQ(missing_rate(machine, Precision::fp32), "has no [device.fp32]; add it, or set train.precision to bf16");
  machine.device.products[static_cast<size_t>(Precision::fp16)] = {2, 1};
  EXPECT_EQ(missing_rate(machine, Precision::fp32),
            "has no [device.fp32]; add it, or set train.precision to bf16 or fp16");
  EXPECT_EQ(machine.source(), "ours.toml");
  machine.file = "";
  EXPECT_EQ(machine.source(), "ours");
}

TEST(Machine, DefaultsOfOptionalFigures) {
  const Machine machine = parse(R"(name = "one"
[device]
name = "a core"
memory = "1 GB"
memory_bandwidth = "1 GB/s"
kernel_time = "0 s"
launch_time = "0 s"
fp32 = {peak = "1 GFLOP/s", achievable = "1 GFLOP/s"}
)",
                                "one.toml");
  EXPECT_EQ(machine.devices(), 1);
  EXPECT_EQ(machine.device.tiles, std::vector<Tile>(1));
  EXPECT_EQ(machine.device.compute_units, 1);
  EXPECT_EQ(machine.device.attention, 1);
  EXPECT_EQ(machine.storage, Storage{});
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
}

TEST(Machine, SaysHowDirectExchangesProceed) {
  const std::string latency = "latency = \"5 us\"";
  const Machine machine = parse(
      with({{latency, latency + "\nmessage_time = \"2.5 us\"\ndirect_ranks = 32\ndirect_share = 0.1"}}), "ours.toml");
  EXPECT_EQ(machine.tiers[2].message_seconds, 2.5e-6);
  EXPECT_EQ(machine.tiers[2].direct_ranks, 32);
  EXPECT_EQ(machine.tiers[2].direct_share, 0.1);
  EXPECT_EQ(machine.tiers[1].direct_ranks, 0);
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
  EXPECT_EQ(complaint(with({{latency, latency + "\nmessage_time = \"6 us\"\ndirect_ranks = 32"}})),
            "2 problems in ours.toml:\n"
            "  ours.toml:37:1: tiers[3].direct_share must be below 1 beside direct_ranks, such as 0.1\n"
            "  ours.toml:43:16: tiers[3].message_time = \"6 us\" is more than the latency, \"5 us\", of a step alone");
  EXPECT_EQ(complaint(with({{latency, latency + "\ndirect_share = 0.5"}})),
            "ours.toml:43:16: tiers[3].direct_share = 0.5 has no effect without direct_ranks; add it, such as 256");
}

TEST(Machine, StatesTheMemoryOfACommunicator) {
  const std::string table = "[communicators]\n";
  const Machine machine =
      parse(valid_toml + table + "memory = \"688 MiB\"\nmemory_of_two = \"544 MiB\"\nchannels = 24\n", "ours.toml");
  EXPECT_EQ(machine.communicators, (Communicators{688.0 * 1048576, 544.0 * 1048576, 24}));
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
  EXPECT_EQ(dump(parse(valid_toml, "ours.toml")).find("communicators"), std::string::npos);
  EXPECT_EQ(complaint(valid_toml + table + "memory = \"1 GB\"\nmemory_of_two = \"2 GB\"\nchannels = 0\n"),
            "2 problems in ours.toml:\n"
            "  ours.toml:48:17: communicators.memory_of_two = \"2 GB\" is more than that with more members, \"1 GB\"\n"
            "  ours.toml:49:12: communicators.channels = 0 must be a whole number from 1 to 1,000; the nearest is 1");
  EXPECT_EQ(
      complaint(valid_toml + table + "memory_of_two = \"2 GB\"\n"),
      "ours.toml:47:17: communicators.memory_of_two = \"2 GB\" has no effect without memory, that of communicators "
      "with more members; add it");
}

TEST(Machine, SaysWhichLinksCarryDirectExchanges) {
  const std::string toml = with({{"latency = \"5 us\"", "latency = \"5 us\"\nexchange = \"direct\""}});
  const Machine machine = parse(toml, "ours.toml");
  EXPECT_EQ(machine.tiers[1].exchange, Exchange::ring);
  EXPECT_EQ(machine.tiers[2].exchange, Exchange::direct);
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
  const std::string refused = complaint(with({{"latency = \"5 us\"", "latency = \"5 us\"\nexchange = \"star\""}}));
  EXPECT_EQ(refused.find("ours.toml:43:12: tiers[3].exchange = \"star\" must be "), 0) << refused;
}

TEST(Machine, DumpIsReadBackAsAnEqualMachine) {
  const Machine machine = parse(valid_toml, "ours.toml");
  const std::string text = dump(machine);
  EXPECT_EQ(parse(text, "dump.toml"), machine);
  EXPECT_EQ(dump(parse(text, "dump.toml")), text);
  EXPECT_NE(text.find("\n[device]\nname = \"a GPU\"\nmemory = \"64 GB\"\nreserved = \"1.5 GiB\"\n"), std::string::npos);
  EXPECT_NE(text.find("\n[device.bf16]\npeak = \"191.5 TFLOP/s\"\n"), std::string::npos);
  EXPECT_NE(text.find("\nlink_bandwidth = \"25 GB/s\"\n"), std::string::npos);
}

struct WrongFigure {
  std::string line, replacement, expected;
};

class Refusal : public testing::TestWithParam<WrongFigure> {};

TEST_P(Refusal, NamesFileLineKeyAndBounds) {
  EXPECT_EQ(complaint(with({{GetParam().line, GetParam().replacement}})), GetParam().expected);
}

const std::vector<WrongFigure> wrong_figures = {
    // Required figures that are missing.
    {"memory = \"64 GB\"", "",
     "ours.toml:4:1: device.memory is missing; add to [device] a line such as memory = \"80 GiB\""},
    {"name = \"ours\"", "", "ours.toml: name is missing; add a line such as name = \"our-cluster\""},
    {"peak = \"191.5 TFLOP/s\"", "",
     "ours.toml:15:1: device.bf16.peak is missing; add to [device.bf16] a line such as peak = \"312 TFLOP/s\""},
    {"latency = \"2 us\"", "",
     "ours.toml:31:1: tiers[2].latency is missing; add to [[tiers]] a line such as latency = \"5 us\""},
    {"efficiency = 0.5", "",
     "ours.toml:22:1: device.tiles[2].efficiency is missing; add to [[device.tiles]] a line such as efficiency = 0.9"},
    // Absurd ones.
    {"memory = \"64 GB\"", "memory = \"64 TB\"",
     "ours.toml:6:10: device.memory = \"64 TB\" must be from 16 MB to 20 TB"},
    {"memory = \"64 GB\"", "memory = \"64 B\"", "ours.toml:6:10: device.memory = \"64 B\" must be from 16 MB to 20 TB"},
    {"latency = \"5 us\"", "latency = \"5 s\"",
     "ours.toml:42:11: tiers[3].latency = \"5 s\" must be from 1 ns to 100 ms"},
    {"reserved = \"1.5 GiB\"", "reserved = \"64 GB\"",
     "ours.toml:7:12: device.reserved = \"64 GB\" leaves nothing of the memory, \"64 GB\""},
    {"achievable = \"150 TFLOP/s\"", "achievable = \"250 TFLOP/s\"",
     "ours.toml:17:14: device.bf16.achievable = \"250 TFLOP/s\" is more than the peak, \"191.5 TFLOP/s\""},
    {"efficiency = 1", "efficiency = 90",
     "ours.toml:21:14: device.tiles[1].efficiency = 90 must be a number above 0 and at most 1"},
    {"attention = 0.5", "attention = 0",
     "ours.toml:11:13: device.attention = 0 must be a number above 0 and at most 2"},
    {"compute_units = 100", "compute_units = 0",
     "ours.toml:9:17: device.compute_units = 0 must be a whole number from 1 to 1,000,000; the nearest is 1"},
    {"node_failure_time = \"500 h\"", "node_failure_time = \"500000 d\"",
     "ours.toml:3:21: node_failure_time = \"500000 d\" must be from 1 h to 10000000 h"},
    {"total_bandwidth = \"20 GB/s\"", "total_bandwidth = \"2 GB/s\"",
     "ours.toml:45:19: storage.total_bandwidth = \"2 GB/s\" is less than that of one node, \"5 GB/s\""},
    // Unknown keys and units.
    {"power = \"560 W\"", "pwer = \"560 W\"", "ours.toml:14:1: unknown key device.pwer; did you mean power?"},
    {"[storage]", "[storrage]", "ours.toml:43:2: unknown key storrage; did you mean storage?"},
    {"[device.bf16]", "[device.tf32]",
     "2 problems in ours.toml:\n"
     "  ours.toml:4:1: device.bf16 is missing, as fp32 and fp16 are; add a table [device.bf16] with peak and "
     "achievable, "
     "or one for another type\n"
     "  ours.toml:15:9: unknown key device.tf32; did you mean fp32?"},
    {"memory = \"64 GB\"", "memory = \"64 gb\"",
     "ours.toml:6:10: device.memory = \"64 gb\" must be a string with a number and a unit, such as \"64 GiB\"; the "
     "units "
     "are B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"},
    {"memory = \"64 GB\"", "memory = 64",
     "ours.toml:6:10: device.memory = 64 must be a string with a number and a unit, such as \"64 GiB\"; the units are "
     "B, "
     "kB, MB, GB, TB, KiB, MiB, GiB or TiB"},
    {"power = \"560 W\"", "power = \"560 V\"",
     "ours.toml:14:9: device.power = \"560 V\" must be a string with a number and a unit, such as \"400 W\"; the units "
     "are "
     "mW, W or kW"},
    // Tiers.
    {"devices = 80", "devices = 81",
     "ours.toml:39:11: tiers[3].devices = 81 is not a multiple of the 8 devices of the tier \"node\" inside it; use 80 "
     "or "
     "88"},
    {"devices = 8", "devices = 5",
     "ours.toml:33:11: tiers[2].devices = 5 is not a multiple of the 2 devices of the tier \"pair\" inside it; use 4 "
     "or 6"},
    {"devices = 80", "devices = 4",
     "ours.toml:39:11: tiers[3].devices = 4 is not a multiple of the 8 devices of the tier \"node\" inside it; use 8"},
    {"name = \"node\"", "name = \"nod\"",
     "ours.toml:32:8: tiers[2].name = \"nod\" must be \"pair\", \"socket\", \"node\", \"rack\", \"pod\", \"group\" or "
     "\"network\""},
    {"name = \"network\"", "name = \"node\"",
     "ours.toml:38:8: tiers[3].name = \"node\" is the name of two tiers; every name may be used once"},
    {"devices_per_link = 2", "devices_per_link = 16",
     "ours.toml:41:20: tiers[3].devices_per_link = 16 leaves a node of 8 devices without a link of its own; use at "
     "most 8"},
    {"link_bandwidth = \"100 GB/s\"", "link_bandwidth = \"100 GB/s\"\ndevices_per_link = 2",
     "ours.toml:30:20: tiers[1].devices_per_link = 2 leaves a device without a link of its own; use at most 1"},
};
INSTANTIATE_TEST_SUITE_P(Figures, Refusal, testing::ValuesIn(wrong_figures));

TEST(Machine, ListsAllProblemsInTheOrderOfTheFile) {
  EXPECT_EQ(complaint(with({{"memory = \"64 GB\"", "memory = true"},
                            {"devices = 8", "devices = 0"},
                            {"latency = \"5 us\"", "latency = \"5 fortnights\""}})),
            "3 problems in ours.toml:\n"
            "  ours.toml:6:10: device.memory = true must be a string with a number and a unit, such as \"64 GiB\"; the "
            "units are B, kB, MB, GB, TB, KiB, MiB, GiB or TiB\n"
            "  ours.toml:33:11: tiers[2].devices = 0 must be a whole number from 1 to 16,777,216; the nearest is 1\n"
            "  ours.toml:42:11: tiers[3].latency = \"5 fortnights\" must be a string with a number and a unit, such as "
            "\"2.5 us\"; the units are ns, us, ms or s");
}

TEST(Machine, RefusesADescriptionWithoutADeviceOrWithoutRates) {
  EXPECT_EQ(complaint("name = \"ours\""), "ours.toml: the table [device] is missing");
  EXPECT_EQ(
      complaint(with({{"[device.bf16]", ""}, {"peak = \"191.5 TFLOP/s\"", ""}, {"achievable = \"150 TFLOP/s\"", ""}})),
      "ours.toml:4:1: device.bf16 is missing, as fp32 and fp16 are; add a table [device.bf16] with peak and "
      "achievable, or one for another type");
  EXPECT_EQ(complaint("name = = \"ours\"").substr(0, 12), "ours.toml:1:");
}

// The whole machine may have a last group with fewer nodes, but none with a part of a node.
TEST(Machine, JobsOfSeveralDevicesMayReachLess) {
  std::string toml = valid_toml;
  const std::string rate = "achievable = \"150 TFLOP/s\"\n";
  toml.insert(toml.find(rate) + rate.size(), "achievable_together = \"130 TFLOP/s\"\n");
  const Machine machine = parse(toml, "ours.toml");
  EXPECT_EQ(parse(dump(machine), "ours.toml"), machine);
  EXPECT_EQ(for_job(machine, {}, 1), machine);
  EXPECT_EQ(for_job(machine, {}, 2).device.rate(config::Precision::bf16).achievable, 130e12);
  EXPECT_EQ(
      complaint(toml.replace(toml.find("\"130 T"), 6, "\"160 T")),
      "ours.toml:18:23: device.bf16.achievable_together = \"160 TFLOP/s\" is more than achievable, \"150 TFLOP/s\"");
}

// Nodes of 8 devices: pairs with a link of 100 GB/s, two links of 50 GB/s of each device to the other pairs, and one of
// 25 GB/s for two devices out of the node. 40 GB/s through the host are 5 GB/s for each device.
TEST(Machine, DataThroughTheHostAreAsFastAsADevicesShareOfIt) {
  std::string toml = valid_toml;
  toml.insert(toml.find("[storage]"), "[host]\nstaging_bandwidth = \"40 GB/s\"\n");
  const Machine machine = parse(toml, "ours.toml");
  EXPECT_EQ(parse(dump(machine), "ours.toml"), machine);
  const auto links = [&](HostStaging staging, int64_t devices) {
    std::vector<double> rates;
    for (const Tier& tier : for_job(machine, {.host_staging = staging}, devices).tiers) {
      rates.push_back(tier.link_bandwidth);
    }
    return rates;
  };
  EXPECT_EQ(links(HostStaging::none, 16), (std::vector{100e9, 50e9, 25e9}));
  EXPECT_EQ(links(HostStaging::nodes, 16), (std::vector{100e9, 50e9, 10e9}));
  EXPECT_EQ(links(HostStaging::neighbours, 16), (std::vector{5e9, 50e9, 10e9}));
  EXPECT_EQ(links(HostStaging::neighbours, 8), (std::vector{100e9, 50e9, 25e9})) << "one node";
}

TEST(Machine, StatesTheMemoryOfANode) {
  std::string toml = valid_toml;
  EXPECT_EQ(parse(toml, "ours.toml").host.memory_bytes, 0);
  toml.insert(toml.find("[storage]"), "[host]\nmemory = \"512 GB\"\nholds_devices = true\n");
  const Machine machine = parse(toml, "ours.toml");
  EXPECT_EQ(machine.host, (Host{.memory_bytes = 512e9, .holds_devices = true}));
  EXPECT_EQ(parse(dump(machine), "ours.toml"), machine);
  const std::string missing = complaint(toml.erase(toml.find("memory = \"512 GB\"\n"), 18));
  EXPECT_NE(missing.find("host.holds_devices = true has no effect without memory; add it"), std::string::npos)
      << missing;
}

TEST(Machine, KnowsItsOwnErrors) {
  const std::string toml = dump(load("laptop"));
  const std::string errors = R"(
[[errors]]
kind = "one stage in one node"
runs = 12
lowest = -0.05
highest = 0.07
most_devices = 4
fewest_parameters = 1000000
most_parameters = 2000000
families = ["gpt"]
programs = ["terrace"]
)";
  const Machine machine = parse(toml + errors, "ours.toml");
  ASSERT_EQ(machine.errors.size(), 1U);
  EXPECT_EQ(machine.errors.front().highest, 0.07);
  EXPECT_EQ(machine.errors.front().machines, std::vector<std::string>{"laptop"});
  EXPECT_EQ(parse(dump(machine), "ours.toml"), machine);
  const std::string wrong = std::string(errors).replace(errors.find("0.07"), 4, "-0.5");
  try {
    parse(toml + wrong, "ours.toml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("is less than lowest, -0.05"), std::string::npos) << error.what();
  }
}

TEST(Machine, LibrariesReachAShareOfTheRates) {
  const Machine machine = parse(valid_toml, "ours.toml");
  const Machine job = for_job(machine, {.products = 0.5, .attention = 0.25}, 1);
  const auto bf16 = config::Precision::bf16;
  EXPECT_EQ(job.device.rate(bf16).achievable, 75e12);
  EXPECT_EQ(job.device.attention_rate(bf16), machine.device.attention_rate(bf16) / 4);
  EXPECT_EQ(job.device.rate(bf16).peak, machine.device.rate(bf16).peak);
}

TEST(Machine, RatesOfProductsInFp8AreReadAndCheckedAsOthers) {
  std::string toml = valid_toml;
  toml.insert(
      toml.find("[[device.tiles]]"),
      "[device.fp8]\npeak = \"380 TFLOP/s\"\nachievable = \"300 TFLOP/s\"\nachievable_together = \"260 TFLOP/s\"\n");
  const Machine machine = parse(toml, "ours.toml");
  EXPECT_EQ(machine.device.fp8.peak, 380e12);
  EXPECT_EQ(parse(dump(machine), "ours.toml"), machine);
  EXPECT_EQ(for_job(machine, {.products = 0.5}, 1).device.fp8.achievable, 150e12);
  EXPECT_EQ(for_job(machine, {}, 2).device.fp8.achievable, 260e12);
  EXPECT_EQ(missing_fp8(machine), "");
  EXPECT_EQ(missing_fp8(parse(valid_toml, "ours.toml")),
            "has no [device.fp8]; add it with peak and achievable, or name alps, dgx-b200, dgx-h100, dgx-h200, "
            "gb200-nvl72, mi300x, mi325x or mi355x");
  EXPECT_EQ(complaint(toml.replace(toml.find("\"300 T"), 6, "\"400 T")),
            "ours.toml:20:14: device.fp8.achievable = \"400 TFLOP/s\" is more than the peak, \"380 TFLOP/s\"");
}

TEST(Machine, TheLastGroupMayBeSmaller) {
  const auto with_group = [](int64_t group, int64_t all) {
    return with({{"name = \"network\"", "name = \"group\""},
                 {"devices = 80", fmt::format("devices = {}", group)},
                 {"[storage]", fmt::format("[[tiers]]\nname = \"network\"\ndevices = {}\nlink_bandwidth = \"1 GB/s\"\n"
                                           "latency = \"9 us\"\n[storage]",
                                           all)}});
  };
  EXPECT_EQ(parse(with_group(32, 80), "ours.toml").devices(), 80);
  EXPECT_EQ(
      complaint(with_group(32, 84)),
      "ours.toml:45:11: tiers[4].devices = 84 is not a multiple of the 32 devices of the tier \"group\" inside it; "
      "use 64 or 96");
  EXPECT_EQ(
      complaint(with_group(32, 16)),
      "ours.toml:45:11: tiers[4].devices = 16 is not a multiple of the 32 devices of the tier \"group\" inside it; "
      "use 32");
}

// A randomly damaged description is either refused as the user's mistake, or read; then dump() and parse() give an
// equal machine.
TEST(Machine, DamagedDescriptionsAreRefusedOrRead) {
  std::mt19937_64 random(3);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  int read = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = valid_toml;
    for (size_t damages = 1 + below(2); damages > 0; --damages) {
      const size_t place = below(text.size());
      if (below(2) == 0) {
        text.erase(place, 1 + below(4));
      } else {
        text[place] = static_cast<char>(random());
      }
    }
    try {
      const Machine machine = parse(text, "damaged.toml");
      ASSERT_EQ(parse(dump(machine), "dump.toml"), machine);
      ++read;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace terrace::machine

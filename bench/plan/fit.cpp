// Fits constants of a machine's and a program's description to published step times of one node:
//
//   bench_plan_fit [--folder bench/plan/data] [--rounds 2000] [--every 5] [--seed 1]
//
// A random search changes one to three constants at a time, within bounds that keep them physical, and keeps a change
// that lowers the mean of |log(predicted / measured)| over every fifth run. It prints the constants, which were copied
// into machines/dgx-a100-80gb.toml and machines/software/megatron.toml.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/plan/published.h"
#include "terrace/base/error.h"
#include "terrace/plan/prediction.h"

namespace {

using namespace terrace;

// A constant of the target with its bounds.
struct Constant {
  std::string name;
  double low, high;
  std::function<double&(plan::Target&)> value;
};

std::vector<Constant> constants() {
  const auto fp16 = static_cast<size_t>(config::Precision::fp16);
  return {
      {"device: achievable FLOP/s in fp16", 240e12, 268e12,
       [=](plan::Target& t) -> double& { return t.machine.device.products[fp16].achievable; }},
      {"device: tile_start", 50, 200, [](plan::Target& t) -> double& { return t.machine.device.tile_start; }},
      {"device: memory_bandwidth", 1.5e12, 1.77e12,
       [](plan::Target& t) -> double& { return t.machine.device.memory_bandwidth; }},
      {"device: kernel_seconds", 1e-6, 3e-6,
       [](plan::Target& t) -> double& { return t.machine.device.kernel_seconds; }},
      {"device: launch_seconds", 2e-6, 2e-5,
       [](plan::Target& t) -> double& { return t.machine.device.launch_seconds; }},
      {"tier node: link_bandwidth", 2e11, 2.35e11,
       [](plan::Target& t) -> double& { return t.machine.tiers.front().link_bandwidth; }},
      {"tier node: latency_seconds", 1e-6, 8e-6,
       [](plan::Target& t) -> double& { return t.machine.tiers.front().latency_seconds; }},
      {"software: element_passes", 1.2, 6, [](plan::Target& t) -> double& { return t.software.element_passes; }},
      {"software: score_passes", 5, 20, [](plan::Target& t) -> double& { return t.software.score_passes; }},
      {"software: forward_kernels", 5, 100, [](plan::Target& t) -> double& { return t.software.forward_kernels; }},
      {"software: backward_kernels", 5, 200, [](plan::Target& t) -> double& { return t.software.backward_kernels; }},
      {"software: optimizer_passes", 1.85, 6, [](plan::Target& t) -> double& { return t.software.optimizer_passes; }},
  };
}

double mean_error(const std::vector<bench::PublishedRun>& runs, plan::Target target) {
  double sum = 0;
  for (const bench::PublishedRun& run : runs) {
    target.devices = run.devices;
    sum += std::abs(std::log(plan::predict(bench::config_of(run), target).step_seconds / run.seconds));
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Fits constants to published step times of one node");
  std::string folder = "bench/plan/data", machine = "dgx-a100-80gb", software = "megatron";
  int rounds = 2000, every = 5;
  unsigned seed = 1;
  app.add_option("--folder", folder, "Folder of the published tables");
  app.add_option("--machine", machine, "Description to begin with");
  app.add_option("--software", software, "Description to begin with");
  app.add_option("--rounds", rounds, "Changes that are tried");
  app.add_option("--every", every, "Take every so many runs");
  app.add_option("--seed", seed, "Of the random search");
  CLI11_PARSE(app, argc, argv);

  const std::vector<bench::PublishedRun> all = bench::read_vtrain(folder + "/vtrain_a100_single.csv");
  std::vector<bench::PublishedRun> runs;
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(every)) runs.push_back(all[i]);
  plan::Target best{.machine = machine::load(machine), .software = machine::load_software(software)};
  const std::vector<Constant> list = constants();
  double least = mean_error(runs, best);
  fmt::print("{} runs, mean error {:.2f}% at the beginning\n", runs.size(), 100 * least);

  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (int round = 0; round < rounds; ++round) {
    plan::Target changed = best;
    const double width = 0.4 * std::pow(0.05, static_cast<double>(round) / rounds);
    const auto changes = 1 + random() % 3;
    for (unsigned change = 0; change < changes; ++change) {
      const Constant& one = list[random() % list.size()];
      double& value = one.value(changed);
      value = std::clamp(value * std::exp(width * normal(random)), one.low, one.high);
    }
    const double error = mean_error(runs, changed);
    if (error >= least) continue;
    least = error;
    best = changed;
  }
  for (const Constant& one : list) fmt::print("{:<40}{:.5g}\n", one.name, one.value(best));
  fmt::print("mean error {:.2f}% on the runs of the search, {:.2f}% on all of one node\n", 100 * least,
             100 * mean_error(all, best));
} catch (const UserError& error) {
  fmt::print(stderr, "bench_plan_fit: {}\n", error.what());
  return 2;
}

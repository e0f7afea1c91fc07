// Measures how long ranks wait for each other where they share graphs by cost.
//
//     bench_gnn_waiting CONFIG RANKS [section.key=value...]
//
// Trains 200 steps on so many ranks, which are threads, and prints the share of a step that a rank spends in waiting
// for calls of communication, which includes what the calls themselves take: median and quartiles of all ranks and
// steps.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "bench/layouts/recorded_calls.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;

constexpr int warm_up = 20, steps = 200;

double waited_seconds(bench::RecordingWorld& world) {
  double sum = 0;
  for (const auto& group : world.groups()) {
    for (size_t kind = 0; kind < comm::num_kinds; ++kind) {
      sum += group->outer->traffic(static_cast<comm::Kind>(kind)).exposed_seconds;
    }
  }
  return sum;
}

// The share of each step that this rank waited.
std::vector<double> waited_shares(const config::Config& config, comm::World& inner) {
  bench::RecordingWorld world(inner);
  train::Trainer trainer(config, train::Peak{}, {}, &world);
  std::vector<double> shares;
  for (int step = 0; step < warm_up + steps; ++step) {
    world.forget_calls();
    const auto began = std::chrono::steady_clock::now();
    trainer.step();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (step >= warm_up) shares.push_back(waited_seconds(world) / seconds);
  }
  return shares;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_gnn_waiting CONFIG RANKS [section.key=value...]\n");
    return 2;
  }
  const config::Config config =
      config::load(argv[1], models::families(), std::vector<std::string>(argv + 3, argv + argc));
  const int64_t ranks = std::stoll(argv[2]);
  train::prepare_machine(std::max<int64_t>(1, train::choose_threads(config.train.threads) / ranks));
  std::vector<double> shares;
  std::mutex mutex;
  comm::run_threads(ranks, train::world_options(config), [&](comm::World& world) {
    const std::vector<double> own = waited_shares(config, world);
    const std::lock_guard lock(mutex);
    shares.insert(shares.end(), own.begin(), own.end());
  });
  std::ranges::sort(shares);
  const auto percent = [&](size_t quarter) { return 100 * shares[shares.size() * quarter / 4]; };
  fmt::print("of a step a rank waits {:.2f}% (quartiles {:.2f} to {:.2f}) for {} ranks\n", percent(2), percent(1),
             percent(3), ranks);
  return 0;
}

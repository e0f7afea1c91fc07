// Runs steps of the trainer on several ranks, which are threads, on demand of bench/layouts/compare.py. Takes the same
// commands on standard input as bench/step/trainer.cpp.
#include "terrace/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The number of steps that the next line asks for; 0 at the end.
int64_t asked_steps() {
  std::string line, go;
  int64_t count = 0;
  if (std::getline(std::cin, line)) std::istringstream(line) >> go >> count;
  return count;
}

void serve_commands(const config::Config& config, comm::World& world) {
  train::Trainer trainer(config, train::Peak{}, {}, &world);
  comm::Comm& all = trainer.saving_group();
  const bool first = world.rank() == 0;
  double loss = trainer.step().metrics.loss;
  if (first) fmt::print("@ ready {:.6f} loss {:.5f}\n", now_seconds(), loss);
  std::fflush(stdout);
  for (;;) {
    int64_t count = first ? asked_steps() : 0;
    all.broadcast(&count, 1, comm::Type::int64, 0, {.what = "steps"}).wait();
    if (count == 0) return;
    std::string times;
    for (int64_t i = 0; i < count; ++i) {
      const auto began = std::chrono::steady_clock::now();
      loss = trainer.step().metrics.loss;
      times += fmt::format(" {:.3f}",
                           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    }
    if (first) fmt::print("@ ms{} loss {:.5f}\n", times, loss);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_layouts_trainer CONFIG RANKS [section.key=value...]\n");
    return 2;
  }
  const config::Config config =
      config::load(argv[1], models::families(), std::vector<std::string>(argv + 3, argv + argc));
  const int64_t ranks = std::stoll(argv[2]);
  train::prepare_machine(std::max<int64_t>(1, train::choose_threads(config.train.threads) / ranks));
  comm::run_threads(ranks, train::world_options(config), [&](comm::World& world) { serve_commands(config, world); });
  return 0;
}

// Runs steps of the trainer on demand of bench/step/compare.py. Prints "ready" after its first step, then takes
// commands on standard input: "go K" runs K steps and prints the milliseconds of each, "quit" ends the program.
#include "terrace/train/trainer.h"

#include <fmt/core.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/family.h"
#include "terrace/train/prepare_machine.h"

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace terrace;
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_step_trainer CONFIG [section.key=value...]\n");
    return 2;
  }
  const config::Config config =
      config::load(argv[1], models::families(), std::vector<std::string>(argv + 2, argv + argc));
  train::prepare_machine(train::choose_threads(config.train.threads));
  train::Trainer trainer(config, train::Peak{});
  double loss = trainer.step().metrics.loss;
  fmt::print("@ ready {:.6f} loss {:.5f}\n", now_seconds(), loss);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    std::istringstream words(line);
    std::string go;
    int count = 0;
    words >> go >> count;
    std::string times;
    for (int i = 0; i < count; ++i) {
      const auto began = std::chrono::steady_clock::now();
      loss = trainer.step().metrics.loss;
      times += fmt::format(" {:.3f}",
                           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    }
    fmt::print("@ ms{} loss {:.5f}\n", times, loss);
    std::fflush(stdout);
  }
  return 0;
}

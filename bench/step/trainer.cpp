// Runs steps of the trainer on demand of bench/step/compare.py and bench/gpu/compare.py. Prints "ready" after its first
// step, then takes commands on standard input: "go K" runs K steps and prints the milliseconds of each, "profile FILE"
// runs one and writes its trace in Chrome's format, "quit" ends the program.
#include "terrace/train/trainer.h"

#include <fmt/core.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/train/prepare_machine.h"

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Every kernel of a step on the GPU, and every operation of torch on the CPU.
void profile_step(terrace::train::Trainer& trainer, const std::string& path) {
  namespace profiler = torch::autograd::profiler;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CPU};
  if (trainer.device().is_cuda()) activities.insert(torch::profiler::impl::ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  trainer.step();
  profiler::disableProfiler()->save(path);
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
  observe::StepMetrics metrics = trainer.step().metrics;
  fmt::print("@ ready {:.6f} loss {:.5f}\n", now_seconds(), metrics.loss);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    std::istringstream words(line);
    std::string command, argument;
    words >> command >> argument;
    if (command == "profile") {
      profile_step(trainer, argument);
      fmt::print("@ profiled\n");
      std::fflush(stdout);
      continue;
    }
    const int count = std::stoi(argument);
    std::string times;
    for (int i = 0; i < count; ++i) {
      const auto began = std::chrono::steady_clock::now();
      metrics = trainer.step().metrics;
      times += fmt::format(" {:.3f}",
                           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    }
    fmt::print("@ ms{} loss {:.5f} memory {}\n", times, metrics.loss, metrics.memory_bytes);
    std::fflush(stdout);
  }
  return 0;
}

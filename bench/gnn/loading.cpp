// Measures how long a step waits for its batches, which are made ahead on a thread of their own.
//
//     bench_gnn_loading CONFIG [section.key=value...]
//
// Trains 200 steps of the configuration, of one rank, and prints the share of a step in which it takes its batches,
// median, nine of ten and the largest, and how long that thread needs to make the batches of a step.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/train/making_seconds.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

using namespace terrace;

constexpr int warm_up = 20, steps = 200;

// The shares of each step, in percent and ascending, in which it waits for its batches.
std::vector<double> waited_shares(const observe::Trace& trace) {
  std::vector<double> shares;
  const std::vector<observe::Span>& spans = trace.front().spans;
  for (const observe::Span& step : spans) {
    if (step.name != observe::step_phase) continue;
    double waited = 0;
    for (const observe::Span& span : spans) {
      const bool inside = span.begin_ns >= step.begin_ns && span.end_ns <= step.end_ns;
      if (span.name == "data" && inside) waited += static_cast<double>(span.end_ns - span.begin_ns);
    }
    shares.push_back(100 * waited / static_cast<double>(step.end_ns - step.begin_ns));
  }
  std::ranges::sort(shares);
  return shares;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_gnn_loading CONFIG [section.key=value...]\n");
    return 2;
  }
  const config::Config config =
      config::load(argv[1], models::families(), std::vector<std::string>(argv + 2, argv + argc));
  train::prepare_machine(train::choose_threads(config.train.threads));
  train::Trainer trainer(config, {});
  for (int step = 0; step < warm_up; ++step) trainer.step();
  profile::OperationRecorder recorder(at::kCPU, nullptr, profile::OperationRecorder::Records::phases);
  const auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) trainer.step();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / steps;
  const std::vector<double> shares = waited_shares(recorder.finish());
  fmt::print(
      "of a step of {:.1f} ms {:.3f}% is taking its batches (nine of ten: {:.3f}%, most {:.2f}%); they take {:.1f} ms "
      "to make\n",
      1e3 * seconds, shares[shares.size() / 2], shares[shares.size() * 9 / 10], shares.back(),
      1e3 * bench::making_seconds(config, steps));
  return 0;
}

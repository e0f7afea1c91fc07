// Length of a step that saves beside one that does not, with the copy written beside training, by way of a staging
// folder, or while training waits. Usage: bench_train_save_step FOLDER [ROUNDS [THREADS]]
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/random_corpus.h"
#include "terrace/checkpoint/snapshot.h"
#include "terrace/models/families.h"
#include "terrace/run/hooks/hooks.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

constexpr int64_t vocabulary = 8192, every = 10, steps = 40;

double seconds_since(Clock::time_point when) { return std::chrono::duration<double>(Clock::now() - when).count(); }

config::Config config_of(const std::string& folder, const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {"model.layers=4",
                                        "model.width=768",
                                        "model.heads=12",
                                        "model.sequence=128",
                                        "model.vocabulary=8192",
                                        "data.train=[\"" + folder + "/corpus\"]",
                                        "train.global_batch=1",
                                        fmt::format("train.steps={}", steps),
                                        "train.device=cpu",
                                        "optimizer.learning_rate=1e-4",
                                        "checkpoint.keep=1",
                                        "checkpoint.folder=" + folder + "/" + name,
                                        fmt::format("checkpoint.every={}", every)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return config::parse("", "bench", models::families(), overrides);
}

// The last hook of a run: its times are of whole steps, hooks and all.
class Stopwatch : public train::Hook {
 public:
  explicit Stopwatch(std::vector<double>& times) : times_(times) {}

  void after_step(train::Trainer&, const train::StepReport&) override {
    times_.push_back(seconds_since(began_));
    began_ = Clock::now();
  }

 private:
  std::vector<double>& times_;
  Clock::time_point began_ = Clock::now();
};

std::string summary(std::vector<double> times) {
  std::ranges::sort(times);
  return fmt::format("{:6.0f} ms ({:.0f} to {:.0f})", 1e3 * times[times.size() / 2], 1e3 * times.front(),
                     1e3 * times.back());
}

struct Times {
  std::vector<double> saving, after, quiet, copy;
};

// Steps that save, those right after them, and those before the next save.
void measure(const config::Config& config, Times& times) {
  std::filesystem::remove_all(config.checkpoint.folder);
  train::Trainer trainer(config, {});
  std::vector<double> all;
  run::add_standard_hooks(trainer);
  trainer.add_hook(std::make_unique<Stopwatch>(all));
  trainer.run();
  // The first save takes its memory, the first steps warm up.
  for (int64_t step = every + 1; step <= steps; ++step) {
    const int64_t since = step % every;
    (since == 0 ? times.saving : since == 1 ? times.after : times.quiet).push_back(all[static_cast<size_t>(step - 1)]);
  }
  checkpoint::Snapshot snapshot;
  for (int64_t i = 0; i < 4; ++i) {
    const auto began = Clock::now();
    snapshot.take(trainer.state());
    if (i > 0) times.copy.push_back(seconds_since(began));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: {} FOLDER [ROUNDS [THREADS]]\n", arguments[0]);
    return 2;
  }
  spdlog::set_level(spdlog::level::warn);
  const std::string folder = arguments[1];
  const int64_t rounds = count > 2 ? std::stoll(arguments[2]) : 3;
  std::filesystem::create_directories(folder);
  bench::write_corpus(folder + "/corpus", vocabulary);
  at::set_num_threads(static_cast<int>(train::choose_threads(count > 3 ? std::stoll(arguments[3]) : 0)));
  const std::vector<std::pair<std::string, std::vector<std::string>>> ways = {
      {"beside training", {}},
      {"by way of staging", {"checkpoint.staging=" + folder + "/staging"}},
      {"while training waits", {"checkpoint.background=false"}}};
  std::vector<Times> times(ways.size());
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) measure(config_of(folder, "run", ways[i].second), times[i]);
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    fmt::print("{:22} step that saves {}, step after it {}, other steps {}; the copy alone {}\n", ways[i].first,
               summary(times[i].saving), summary(times[i].after), summary(times[i].quiet), summary(times[i].copy));
  }
  std::filesystem::remove_all(folder);
  return 0;
}

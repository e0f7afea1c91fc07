// Length of a step whose data take most of the step's time to make, beside one whose data take none: batches are made
// ahead on a thread of their own, so both should be equal while a core is free for it. The data of the slow run are
// those of the other, made with so much processor time more. Usage: bench_train_slow_source [SHARE [ROUNDS]], where
// SHARE is that of a step's time, 0.8 if it is not given. Training computes on one thread.
#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "bench/layouts/bench_run.h"
#include "terrace/data/data_of_family.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

double burnt_seconds = 0;  // by each step's data of the slow run

void burn(double seconds) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  for (const double end = now() + seconds; now() < end;) {
  }
}

class SlowSource : public data::Source {
 public:
  explicit SlowSource(std::unique_ptr<data::Source> source) : source_(std::move(source)) {}

  std::vector<data::MicroBatch> micro_batches(const data::StepShare& share,
                                              const data::TensorNames& names) const override {
    burn(burnt_seconds);
    return source_->micro_batches(share, names);
  }
  std::vector<data::HeldOut> held_out(uint64_t at_most) const override { return source_->held_out(at_most); }
  data::MicroBatch held_out_micro_batch(const data::HeldOut& held_out, const data::RoundShare& share,
                                        const data::TensorNames& names) const override {
    return source_->held_out_micro_batch(held_out, share, names);
  }
  std::vector<std::string> held_out_datasets() const override { return source_->held_out_datasets(); }
  int64_t items(uint64_t first, int64_t samples) const override { return source_->items(first, samples); }
  Json identity() const override { return source_->identity(); }
  Json fingerprint() const override { return source_->fingerprint(); }

 private:
  std::unique_ptr<data::Source> source_;
};

class SlowData : public data::DataOfFamily {
 public:
  explicit SlowData(const data::DataOfFamily& data) : data_(data) {}

  std::unique_ptr<data::Source> open(const config::Config& config) const override {
    return std::make_unique<SlowSource>(data_.open(config));
  }
  std::vector<std::string> problems_with_files(const config::Config& config) const override {
    return data_.problems_with_files(config);
  }
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const override {
    return data_.file_facts(config);
  }
  data::MicroBatch random_batch(const config::Config& config, int64_t first, int64_t count) const override {
    return data_.random_batch(config, first, count);
  }

 private:
  const data::DataOfFamily& data_;
};

// Of each of a few steps.
double step_seconds(train::Trainer& trainer) {
  constexpr int steps = 8;
  const auto began = Clock::now();
  for (int i = 0; i < steps; ++i) trainer.step();
  return std::chrono::duration<double>(Clock::now() - began).count() / steps;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const double share = argc > 1 ? std::atof(argv[1]) : 0.8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  train::prepare_machine(1);
  const bench::Folder folder;
  const config::Config config =
      bench::config_of(folder, 4096,
                       {"model.layers=4", "model.width=256", "model.heads=4", "model.sequence=128",
                        "train.micro_batch=4", "train.global_batch=4", "train.threads=1"});
  config::Family family = *config.family;
  const SlowData slow_data(*family.data);
  family.data = &slow_data;
  config::Config slow_config = config;
  slow_config.family = &family;
  train::Trainer fast(config, {});
  train::Trainer slow(slow_config, {});
  step_seconds(fast);
  burnt_seconds = share * step_seconds(fast);
  step_seconds(slow);
  std::vector<double> ratios, seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(step_seconds(fast));
    ratios.push_back(step_seconds(slow) / seconds.back());
  }
  const bench::Quartiles ratio = bench::quartiles(ratios), step = bench::quartiles(seconds);
  fmt::print(
      "a step takes {:.1f} ms; with data that take {:.1f} ms a step it takes {:.3f} as long (quartiles {:.3f} to "
      "{:.3f} of {} rounds)\n",
      1e3 * step.middle, 1e3 * burnt_seconds, ratio.middle, ratio.low, ratio.high, rounds);
}

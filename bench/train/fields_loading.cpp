// Length of a step whose batches come from prepared fields, beside one whose batch was made once: 48 variables at 5.625
// degrees, all of them read and predicted, as in the pre-training of ClimaX, by a network so small that its steps are
// short. Batches are made ahead on a thread of their own, so both should be equal while a core is free for it. Usage:
// bench_train_fields_loading [ROUNDS [SAMPLES]], 15 rounds and 16 samples a step if they are not given. Training
// computes on one thread.
#include <spdlog/spdlog.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <span>

#include "bench/layouts/bench_run.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

constexpr int64_t num_variables = 48, latitudes = 32, longitudes = 64, times = 2000;

// A dataset as terrace data prepare writes it, of 786 MB, so that it stays in the memory of the system.
void write_fields(const std::string& prefix) {
  data::FieldsDescription all{.step = {.seconds = 6 * 3600}, .climatology = data::ClimatologyKind::none};
  for (int64_t i = 0; i < num_variables; ++i) {
    all.variables.push_back({.name = fmt::format("v{}", i),
                             .variable = fmt::format("v{}", i),
                             .units = "K",
                             .moments = data::Moments{250, 10},
                             .changes = data::Moments{0, 1}});
  }
  for (int64_t i = 0; i < latitudes; ++i) all.latitudes.push_back(-90 + 5.625 * (static_cast<double>(i) + 0.5));
  for (int64_t i = 0; i < longitudes; ++i) all.longitudes.push_back(5.625 * static_cast<double>(i));
  for (int64_t i = 0; i < times; ++i) all.times.push_back(i * all.step.seconds);
  all.splits["train"] = {"1970", "1971", 0, times};
  data::make_fields_store(data::fields_path(prefix), all);
  const data::StoreFile store(data::fields_path(prefix));
  std::vector<float> fields(num_variables * latitudes * longitudes);
  for (int64_t time = 0; time < times; ++time) {
    for (size_t i = 0; i < fields.size(); ++i) {
      fields[i] = 250 + 10 * std::sin(static_cast<float>(time) * 0.1F + static_cast<float>(i) * 0.01F);
    }
    store.write(all.fields, static_cast<uint64_t>(time) * fields.size(), fields);
  }
  std::ofstream(data::description_path(prefix)) << all.text();
}

// Gives the first step's micro-batches in every step.
class FixedSource : public data::Source {
 public:
  explicit FixedSource(std::unique_ptr<data::Source> source) : source_(std::move(source)) {}

  std::vector<data::MicroBatch> micro_batches(const data::StepShare& share,
                                              const data::TensorNames& names) const override {
    if (batches_.empty()) batches_ = source_->micro_batches(share, names);
    return batches_;
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
  mutable std::vector<data::MicroBatch> batches_;  // by the one thread that makes batches
};

class FixedData : public data::DataOfFamily {
 public:
  explicit FixedData(const data::DataOfFamily& data) : data_(data) {}

  std::unique_ptr<data::Source> open(const config::Config& config) const override {
    return std::make_unique<FixedSource>(data_.open(config));
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

config::Config config_of_fields(const bench::Folder& folder, int samples) {
  std::string names;
  for (int64_t i = 0; i < num_variables; ++i) names += fmt::format("{}\"v{}\"", i == 0 ? "" : ", ", i);
  return config::parse(
      "", "bench", models::families(),
      {"model.family=vit", fmt::format("model.variables=[{}]", names), fmt::format("model.outputs=[{}]", names),
       fmt::format("model.grid=[{}, {}]", latitudes, longitudes), "model.patch=4", "model.layers=2", "model.width=128",
       "model.heads=4", "data.fields=" + folder.at("fields"), "data.leads=[\"6h\", \"24h\", \"72h\"]",
       fmt::format("train.global_batch={}", samples), fmt::format("train.micro_batch={}", samples),
       "train.steps=100000", "train.device=cpu", "train.threads=1", "train.evaluate_every=0",
       "optimizer.learning_rate=1e-4", "checkpoint.folder=" + folder.at("run")});
}

// Of each of a few steps.
double step_seconds(train::Trainer& trainer) {
  constexpr int steps = 16;
  const auto began = Clock::now();
  for (int i = 0; i < steps; ++i) trainer.step();
  return std::chrono::duration<double>(Clock::now() - began).count() / steps;
}

// Of the tensors that a network of this kind reads.
double loading_seconds(const config::Config& config, int samples) {
  const std::unique_ptr<data::Source> source = config.family->data->open(config);
  const data::TensorNames names = {"inputs", "targets", "before", "mask", "leads", "weights"};
  constexpr int steps = 20;
  const auto began = Clock::now();
  for (int step = 1; step <= steps; ++step) {
    source->micro_batches({.step = step,
                           .first_sample = static_cast<uint64_t>(step * samples),
                           .samples = samples,
                           .micro_batch = samples},
                          names);
  }
  return std::chrono::duration<double>(Clock::now() - began).count() / steps;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15, samples = argc > 2 ? std::atoi(argv[2]) : 16;
  train::prepare_machine(1);
  const bench::Folder folder;
  write_fields(folder.at("fields"));
  const config::Config config = config_of_fields(folder, samples);
  config::Family family = *config.family;
  const FixedData fixed_data(*family.data);
  family.data = &fixed_data;
  config::Config fixed_config = config;
  fixed_config.family = &family;
  train::Trainer fixed(fixed_config, {}), loading(config, {});
  step_seconds(fixed);
  step_seconds(loading);
  std::vector<double> ratios, seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(step_seconds(fixed));
    ratios.push_back(step_seconds(loading) / seconds.back());
  }
  const bench::Quartiles ratio = bench::quartiles(ratios), step = bench::quartiles(seconds);
  fmt::print(
      "a step of {} fields takes {:.1f} ms; with batches from prepared fields, which take {:.1f} ms to make, it takes "
      "{:.3f} as long (quartiles {:.3f} to {:.3f} of {} rounds)\n",
      samples, 1e3 * step.middle, 1e3 * loading_seconds(config, samples), ratio.middle, ratio.low, ratio.high, rounds);
}

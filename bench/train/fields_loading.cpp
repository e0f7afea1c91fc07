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

#include "bench/layouts/bench_run.h"
#include "bench/train/changed_source.h"
#include "bench/train/making_seconds.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/train/prepare_machine.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

constexpr int steps = 16;
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

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15, samples = argc > 2 ? std::atoi(argv[2]) : 16;
  train::prepare_machine(1);
  const bench::Folder folder;
  write_fields(folder.at("fields"));
  const config::Config config = config_of_fields(folder, samples);
  config::Family family = *config.family;
  const bench::ChangedData fixed_data(
      *family.data, [first = std::vector<data::MicroBatch>()](const data::Source& source, const data::StepShare& share,
                                                              const data::TensorNames& names) mutable {
        if (first.empty()) first = source.micro_batches(share, names);
        return first;
      });
  family.data = &fixed_data;
  config::Config fixed_config = config;
  fixed_config.family = &family;
  train::Trainer fixed(fixed_config, {}), loading(config, {});
  bench::step_seconds(fixed, steps);
  bench::step_seconds(loading, steps);
  std::vector<double> ratios, seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(bench::step_seconds(fixed, steps));
    ratios.push_back(bench::step_seconds(loading, steps) / seconds.back());
  }
  const bench::Quartiles ratio = bench::quartiles(ratios), step = bench::quartiles(seconds);
  fmt::print(
      "a step of {} fields takes {:.1f} ms; with batches from prepared fields, which take {:.1f} ms to make, it takes "
      "{:.3f} as long (quartiles {:.3f} to {:.3f} of {} rounds)\n",
      samples, 1e3 * step.middle, 1e3 * bench::making_seconds(config, 20), ratio.middle, ratio.low, ratio.high, rounds);
}

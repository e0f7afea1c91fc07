// Data whose micro-batches are made in another way, for a training that is timed beside one with the data themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/config/config.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/source.h"
#include "terrace/train/trainer.h"

namespace terrace::bench {

// Gives the micro-batches of a share, of the source that it changes. The share has one micro-batch.
using MakeBatches = std::function<std::vector<data::MicroBatch>(
    const data::Source& source, const data::StepShare& share, const data::TensorNames& names)>;

class ChangedSource : public data::Source {
 public:
  ChangedSource(std::unique_ptr<data::Source> source, MakeBatches make)
      : source_(std::move(source)), make_(std::move(make)) {}

  Json identity() const override { return source_->identity(); }

 protected:
  // Steps are timed, and nothing is held out.
  std::vector<data::HeldOutPart> held_out_parts() const override { return {}; }
  // The samples of a micro-batch have consecutive numbers, since text and fields divide a step into equal shares.
  data::MicroBatch micro_batch(const data::Samples& samples, const data::TensorNames& names) const override {
    const auto count = static_cast<int64_t>(samples.numbers.size());
    return make_(*source_, {.first_sample = samples.numbers.front(), .samples = count, .micro_batch = count}, names)
        .front();
  }
  int64_t items_of(uint64_t sample) const override { return source_->items(sample, 1); }

 private:
  std::unique_ptr<data::Source> source_;
  MakeBatches make_;  // called by the one thread that makes batches
};

// Each source that it opens has a copy of `make`.
class ChangedData : public data::DataOfFamily {
 public:
  ChangedData(const data::DataOfFamily& data, MakeBatches make) : data_(data), make_(std::move(make)) {}

  std::unique_ptr<data::Source> open(const config::Config& config) const override {
    return std::make_unique<ChangedSource>(data_.open(config), make_);
  }
  std::vector<std::string> problems_with_files(const config::Config& config) const override {
    return data_.problems_with_files(config);
  }
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const override {
    return data_.file_facts(config);
  }
  data::MicroBatch random_batch(const config::Config& config, std::span<const int64_t> samples) const override {
    return data_.random_batch(config, samples);
  }

 private:
  const data::DataOfFamily& data_;
  MakeBatches make_;
};

// The time of each of so many steps.
inline double step_seconds(train::Trainer& trainer, int steps) {
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) trainer.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / steps;
}

}  // namespace terrace::bench

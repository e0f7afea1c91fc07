// Data whose micro-batches are made in another way, for a training that is timed beside one with the data themselves.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/source.h"
#include "terrace/train/trainer.h"

namespace terrace::bench {

// Gives the micro-batches of a step, of the source that it changes.
using MakeBatches = std::function<std::vector<data::MicroBatch>(
    const data::Source& source, const data::StepShare& share, const data::TensorNames& names)>;

class ChangedSource : public data::Source {
 public:
  ChangedSource(std::unique_ptr<data::Source> source, MakeBatches make)
      : source_(std::move(source)), make_(std::move(make)) {}

  std::vector<data::MicroBatch> micro_batches(const data::StepShare& share,
                                              const data::TensorNames& names) const override {
    return make_(*source_, share, names);
  }
  std::vector<data::HeldOut> held_out(uint64_t at_most) const override { return source_->held_out(at_most); }
  data::MicroBatch held_out_micro_batch(const data::HeldOut& held_out, const data::RoundShare& share,
                                        const data::TensorNames& names) const override {
    return source_->held_out_micro_batch(held_out, share, names);
  }
  std::vector<std::string> held_out_datasets() const override { return source_->held_out_datasets(); }
  int64_t items(uint64_t first, int64_t samples) const override { return source_->items(first, samples); }
  Json identity() const override { return source_->identity(); }

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
  data::MicroBatch random_batch(const config::Config& config, int64_t first, int64_t count) const override {
    return data_.random_batch(config, first, count);
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

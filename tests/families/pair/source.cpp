// Reads the file and shuffles its samples.
#include "tests/families/pair/source.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/random.h"

namespace terrace::pair {

data::MicroBatch micro_batch_of(std::vector<int64_t> numbers, const std::vector<std::vector<float>>& samples,
                                const data::TensorNames& names) {
  std::vector<float> features, targets;
  std::vector<int64_t> owner;
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    const std::vector<float>& values = samples[sample];
    for (auto item = values.begin(); item != values.end(); item += numbers_per_item) {
      features.insert(features.end(), item, item + numbers_per_item - 1);
      targets.push_back(item[numbers_per_item - 1]);
      owner.push_back(static_cast<int64_t>(sample));
    }
  }
  const auto items = static_cast<int64_t>(owner.size());
  data::MicroBatch batch{.samples = std::move(numbers)};
  const auto number_of_items = static_cast<double>(items);
  double weights = 0;
  for (const float target : targets) weights += std::abs(target);
  batch.sizes = {{"items", items}};
  batch.counts = {number_of_items, static_cast<double>(samples.size()), number_of_items, number_of_items, weights};
  const auto add = [&](const char* name, data::HostTensor tensor) {
    if (names.contains(name)) batch.tensors[name] = std::move(tensor);
  };
  add("features", data::HostTensor::of(features, {items, numbers_per_item - 1}));
  add("targets", data::HostTensor::of(targets, {items, 1}));
  add("owner", data::HostTensor::of(owner, {items}));
  return batch;
}

namespace {

int64_t items_in(const std::vector<float>& sample) { return std::ssize(sample) / numbers_per_item; }

}  // namespace

PairSource::PairSource(const DataConfig& config, uint64_t seed, const Sizes& budget) : file_(config.train) {
  const std::string text = read_text(file_);
  checksum_ = checksum(std::as_bytes(std::span(text)));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    std::vector<float>& sample = samples_.emplace_back();
    for (float number = 0; numbers >> number;) sample.push_back(number);
    if (!numbers.eof() || sample.size() % numbers_per_item != 0) {
      throw UserError::of("{}:{}: {} numbers, and an item has {}", file_, samples_.size(), sample.size(),
                          numbers_per_item);
    }
  }
  data::SizesOfSamples sizes = {{"items", {}}};
  for (const std::vector<float>& one : samples_) sizes["items"].push_back(items_in(one));
  data::check_budget(sizes, budget, file_);
  const auto held_out = static_cast<size_t>(config.held_out * static_cast<double>(samples_.size()));
  training_ = samples_.size() - held_out;
  if (training_ == 0)
    throw UserError::of("{} has {} samples, of which none is left to train on", file_, samples_.size());
  order_.emplace(std::vector<uint64_t>{training_}, std::vector<double>{}, stream_key(seed, "order of pairs"), true);
}

const std::vector<float>& PairSource::sample(uint64_t number) const { return samples_[order_->at(number).sample]; }

const std::vector<float>& PairSource::sample_of(const data::Samples& samples, uint64_t number) const {
  return samples.held_out == nullptr ? sample(number) : samples_[training_ + number];
}

data::MicroBatch PairSource::micro_batch(const data::Samples& samples, const data::TensorNames& names) const {
  std::vector<std::vector<float>> values;
  for (const uint64_t number : samples.numbers) values.push_back(sample_of(samples, number));
  return micro_batch_of({samples.numbers.begin(), samples.numbers.end()}, values, names);
}

int64_t PairSource::items_of(uint64_t sample) const { return items_in(this->sample(sample)); }

data::SizesOfSamples PairSource::sizes_of(const data::Samples& samples) const {
  data::SizesOfSamples sizes = {{"items", {}}};
  for (const uint64_t number : samples.numbers) sizes["items"].push_back(items_in(sample_of(samples, number)));
  return sizes;
}

}  // namespace terrace::pair

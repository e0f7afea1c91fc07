// Reads the file, shuffles its samples and divides a step's samples among the ranks.
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

int64_t items_of(const std::vector<float>& sample) { return std::ssize(sample) / numbers_per_item; }

}  // namespace

PairSource::PairSource(const DataConfig& config, uint64_t seed, const Sizes& budget)
    : file_(config.train), rounds_([this](const data::HeldOut& held_out) {
        data::SizesOfSamples sizes = {{"items", {}}};
        for (const uint64_t number : held_out.samples) sizes["items"].push_back(items_of(samples_[training_ + number]));
        return sizes;
      }) {
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
  for (const std::vector<float>& one : samples_) sizes["items"].push_back(items_of(one));
  data::check_budget(sizes, budget, file_);
  const auto held_out = static_cast<size_t>(config.held_out * static_cast<double>(samples_.size()));
  training_ = samples_.size() - held_out;
  if (training_ == 0)
    throw UserError::of("{} has {} samples, of which none is left to train on", file_, samples_.size());
  order_.emplace(std::vector<uint64_t>{training_}, std::vector<double>{}, stream_key(seed, "order of pairs"), true);
}

const std::vector<float>& PairSource::sample(uint64_t number) const { return samples_[order_->at(number).sample]; }

std::vector<data::MicroBatch> PairSource::micro_batches(const data::StepShare& share,
                                                        const data::TensorNames& names) const {
  const auto sizes_of_step = [&] {
    data::SizesOfSamples sizes = {{"items", {}}};
    for (int64_t i = 0; i < share.samples; ++i) {
      sizes["items"].push_back(items_of(sample(share.first_sample + static_cast<uint64_t>(i))));
    }
    return sizes;
  };
  std::vector<data::MicroBatch> batches;
  for (const std::vector<int64_t>& own : data::own_samples(share, sizes_of_step)) {
    std::vector<int64_t> numbers;
    std::vector<std::vector<float>> samples;
    for (const int64_t place : own) {
      numbers.push_back(static_cast<int64_t>(share.first_sample) + place);
      samples.push_back(sample(static_cast<uint64_t>(numbers.back())));
    }
    batches.push_back(micro_batch_of(std::move(numbers), samples, names));
  }
  return batches;
}

std::vector<data::HeldOut> PairSource::held_out(uint64_t at_most) const {
  data::HeldOut all{.dataset = file_, .samples = {}};
  for (uint64_t i = 0; i < std::min<uint64_t>(at_most, samples_.size() - training_); ++i) all.samples.push_back(i);
  return all.samples.empty() ? std::vector<data::HeldOut>{} : std::vector{all};
}

data::MicroBatch PairSource::held_out_micro_batch(const data::HeldOut& held_out, const data::RoundShare& share,
                                                  const data::TensorNames& names) const {
  std::vector<int64_t> numbers;
  std::vector<std::vector<float>> samples;
  for (const int64_t place : rounds_.samples(held_out, share)) {
    const uint64_t number = held_out.samples[static_cast<size_t>(place)];
    numbers.push_back(static_cast<int64_t>(number));
    samples.push_back(samples_[training_ + number]);
  }
  return micro_batch_of(std::move(numbers), samples, names);
}

int64_t PairSource::items(uint64_t first, int64_t samples) const {
  int64_t items = 0;
  for (int64_t i = 0; i < samples; ++i) items += items_of(sample(first + static_cast<uint64_t>(i)));
  return items;
}

}  // namespace terrace::pair

// Reads the file, shuffles its samples and divides a step's samples among the ranks.
#include "tests/families/pair/source.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
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
  batch.counts = {number_of_items, static_cast<double>(samples.size()), number_of_items, number_of_items, weights};
  const auto add = [&](const char* name, data::HostTensor tensor) {
    if (names.contains(name)) batch.tensors[name] = std::move(tensor);
  };
  add("features", data::HostTensor::of(features, {items, numbers_per_item - 1}));
  add("targets", data::HostTensor::of(targets, {items, 1}));
  add("owner", data::HostTensor::of(owner, {items}));
  return batch;
}

PairSource::PairSource(const DataConfig& config, uint64_t seed) : file_(config.train) {
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
  const auto held_out = static_cast<size_t>(config.held_out * static_cast<double>(samples_.size()));
  training_ = samples_.size() - held_out;
  if (training_ == 0)
    throw UserError::of("{} has {} samples, of which none is left to train on", file_, samples_.size());
  order_.emplace(std::vector<uint64_t>{training_}, std::vector<double>{}, stream_key(seed, "order of pairs"), true);
}

const std::vector<float>& PairSource::sample(uint64_t number) const { return samples_[order_->at(number).sample]; }

std::vector<data::MicroBatch> PairSource::micro_batches(const data::StepShare& share,
                                                        const data::TensorNames& names) const {
  const auto begin_of = [&](int64_t rank) { return rank * share.samples / share.ranks; };
  const int64_t largest = (share.samples + share.ranks - 1) / share.ranks;
  int64_t next = begin_of(share.rank);
  const int64_t end = begin_of(share.rank + 1);
  std::vector<data::MicroBatch> batches;
  for (int64_t done = 0; done < largest; done += share.micro_batch) {
    std::vector<int64_t> numbers;
    std::vector<std::vector<float>> samples;
    for (int64_t i = 0; i < share.micro_batch && next < end; ++i, ++next) {
      numbers.push_back(static_cast<int64_t>(share.first_sample) + next);
      samples.push_back(sample(share.first_sample + static_cast<uint64_t>(next)));
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
  const auto end = static_cast<int64_t>(held_out.samples.size());
  const int64_t first = (share.round * share.ranks + share.rank) * share.micro_batch;
  std::vector<int64_t> numbers;
  std::vector<std::vector<float>> samples;
  for (int64_t i = first; i < std::min(first + share.micro_batch, end); ++i) {
    const uint64_t number = held_out.samples[static_cast<size_t>(i)];
    numbers.push_back(static_cast<int64_t>(number));
    samples.push_back(samples_[training_ + number]);
  }
  return micro_batch_of(std::move(numbers), samples, names);
}

int64_t PairSource::items(uint64_t first, int64_t samples) const {
  size_t numbers = 0;
  for (int64_t i = 0; i < samples; ++i) numbers += sample(first + static_cast<uint64_t>(i)).size();
  return static_cast<int64_t>(numbers) / numbers_per_item;
}

}  // namespace terrace::pair

// Divides samples among ranks, micro-batches and rounds, and chooses the held-out ones, for every kind of data.
#include "terrace/data/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "terrace/base/text/json.h"
#include "terrace/data/order/mixture.h"

namespace terrace::data {

// Returns the samples of each micro-batch.
std::vector<std::vector<uint64_t>> Source::own_numbers(const StepShare& share) const {
  const auto sizes_of_step = [&] {
    std::vector<uint64_t> step(static_cast<size_t>(share.samples));
    std::iota(step.begin(), step.end(), share.first_sample);
    return sizes_of({.numbers = step});
  };
  std::vector<std::vector<uint64_t>> own;
  for (const std::vector<int64_t>& places : own_samples(share, sizes_of_step, cost())) {
    std::vector<uint64_t>& numbers = own.emplace_back();
    for (const int64_t place : places) numbers.push_back(share.first_sample + static_cast<uint64_t>(place));
  }
  return own;
}

std::vector<uint64_t> Source::own_numbers(const HeldOut& held_out, const RoundShare& share) const {
  std::vector<uint64_t> numbers;
  for (const int64_t place : rounds_.samples(held_out, share)) {
    numbers.push_back(held_out.samples[static_cast<size_t>(place)]);
  }
  return numbers;
}

std::vector<MicroBatch> Source::micro_batches(const StepShare& share, const TensorNames& names) const {
  return first_micro_batches(share, std::numeric_limits<int64_t>::max(), names);
}

std::vector<MicroBatch> Source::first_micro_batches(const StepShare& share, int64_t count,
                                                    const TensorNames& names) const {
  std::vector<MicroBatch> batches;
  for (const std::vector<uint64_t>& numbers : own_numbers(share)) {
    if (share.stop.stop_requested() || std::ssize(batches) == count) break;
    batches.push_back(micro_batch({.numbers = numbers}, names));
  }
  return batches;
}

Json Source::sample_record(uint64_t sample) const {
  Json record = {{"sample", sample}};
  describe(sample, record);
  return record;
}

FileRanges Source::reads(const StepShare& share, const TensorNames& names) const {
  std::vector<uint64_t> all;
  for (const std::vector<uint64_t>& numbers : own_numbers(share)) all.insert(all.end(), numbers.begin(), numbers.end());
  return ranges_of({.numbers = all}, names);
}

int64_t Source::items(uint64_t first, int64_t samples) const {
  int64_t items = 0;
  for (int64_t sample = 0; sample < samples; ++sample) items += items_of(first + static_cast<uint64_t>(sample));
  return items;
}

// Samples are taken evenly, so that few of them stand for all datasets and, where a dataset has times, for all of
// these.
std::vector<HeldOut> Source::held_out(uint64_t at_most) const {
  const std::vector<HeldOutPart> parts = held_out_parts();
  std::vector<HeldOut> chosen;
  uint64_t all = 0;
  for (const HeldOutPart& part : parts) {
    chosen.push_back({.dataset = part.dataset, .samples = {}});
    all += part.samples;
  }
  const Mixture* order = held_out_order();
  const uint64_t count = std::min(at_most, all);
  size_t dataset = 0;
  uint64_t first = 0;  // of the dataset, counted over all of them
  for (uint64_t i = 0; i < count; ++i) {
    if (order != nullptr) {
      chosen[order->at(i).dataset].samples.push_back(i);
      continue;
    }
    const uint64_t number = i * all / count;
    for (; number - first >= parts[dataset].samples; ++dataset) first += parts[dataset].samples;
    chosen[dataset].samples.push_back(number - first);
  }
  std::erase_if(chosen, [](const HeldOut& of_dataset) { return of_dataset.samples.empty(); });
  return chosen;
}

std::vector<std::string> Source::held_out_datasets() const {
  std::vector<std::string> names;
  for (const HeldOutPart& part : held_out_parts()) {
    if (part.samples > 0) names.push_back(part.dataset);
  }
  return names;
}

MicroBatch Source::held_out_micro_batch(const HeldOut& held_out, const RoundShare& share,
                                        const TensorNames& names) const {
  return micro_batch({.numbers = own_numbers(held_out, share), .held_out = &held_out}, names);
}

FileRanges Source::held_out_reads(const HeldOut& held_out, const RoundShare& share, const TensorNames& names) const {
  return ranges_of({.numbers = own_numbers(held_out, share), .held_out = &held_out}, names);
}

std::string Source::difference(const Json& older, const Json& own, int64_t /*steps_done*/) const {
  return older == own ? "" : fmt::format("they were {}, and are {}", older.dump(), own.dump());
}

}  // namespace terrace::data

// Makes the micro-batches of a source from the random batches of a family.
#include "terrace/rehearse/random_data.h"

#include <cstdint>
#include <optional>

#include "terrace/base/text/json.h"
#include "terrace/config/family.h"

namespace terrace::rehearse {
namespace {

// Held-out samples have numbers that no training sample reaches.
constexpr int64_t first_held_out = int64_t{1} << 40;

class RandomSource : public data::Source {
 public:
  RandomSource(const data::DataOfFamily& of_family, const config::Config& config)
      : of_family_(of_family), config_(config) {
    const std::vector<int64_t> first = {0};
    const data::MicroBatch batch = of_family_.random_batch(config_, first);
    items_ = batch.counts.empty() ? 1 : static_cast<int64_t>(batch.counts.front());
  }

  Json identity() const override { return {{"random", config_.train.seed}}; }

 protected:
  std::vector<data::HeldOutPart> held_out_parts() const override {
    const int64_t batches = std::max<int64_t>(config_.train.evaluate_batches, 1);
    return {{.dataset = "random", .samples = static_cast<uint64_t>(batches * config_.train.global_batch)}};
  }
  // Counts a sample's items as those of the first one: the rates of a rehearsal mean nothing.
  int64_t items_of(uint64_t) const override { return items_; }
  data::SizesOfSamples sizes_of(const data::Samples& samples) const override;
  // Divides samples of unequal size as a model does for which every item costs as much.
  std::optional<data::SampleCost> cost() const override {
    const std::vector<std::string>& names = config_.family->settings.sizes;
    if (names.empty()) return std::nullopt;
    data::SampleCost cost;
    for (const std::string& name : names) cost.of_sizes[name] = 1;
    return cost;
  }
  data::MicroBatch micro_batch(const data::Samples& samples, const data::TensorNames& names) const override;

 private:
  const data::DataOfFamily& of_family_;
  config::Config config_;
  int64_t items_ = 1;
};

std::vector<int64_t> numbers_of(const data::Samples& samples) {
  std::vector<int64_t> numbers(samples.numbers.begin(), samples.numbers.end());
  if (samples.held_out == nullptr) return numbers;
  for (int64_t& number : numbers) number += first_held_out;
  return numbers;
}

data::SizesOfSamples RandomSource::sizes_of(const data::Samples& samples) const {
  data::SizesOfSamples sizes;
  for (const std::string& name : config_.family->settings.sizes) sizes[name];
  if (sizes.empty()) return sizes;
  for (const int64_t number : numbers_of(samples)) {
    const std::vector<int64_t> one = {number};
    const data::MicroBatch batch = of_family_.random_batch(config_, one);
    for (auto& [name, list] : sizes) list.push_back(batch.sizes.at(name));
  }
  return sizes;
}

data::MicroBatch RandomSource::micro_batch(const data::Samples& samples, const data::TensorNames& names) const {
  data::MicroBatch batch = of_family_.random_batch(config_, numbers_of(samples));
  std::erase_if(batch.tensors, [&](const auto& tensor) { return !names.contains(tensor.first); });
  return batch;
}

}  // namespace

std::unique_ptr<data::Source> RandomData::open(const config::Config& config) const {
  return std::make_unique<RandomSource>(of_family_, config);
}

}  // namespace terrace::rehearse

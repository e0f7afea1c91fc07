// The data of pairs: a text file with one line for each sample, and in it seven numbers for each item, six features and
// a target. A sample whose line is empty has no items.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/source.h"
#include "tests/families/pair/config.h"

namespace terrace::pair {

constexpr int64_t numbers_per_item = 7;

// Micro-batches of samples, each with the numbers of its items one after another.
data::MicroBatch micro_batch_of(std::vector<int64_t> numbers, const std::vector<std::vector<float>>& samples,
                                const data::TensorNames& names);

// Each rank takes consecutive samples of a step, whose numbers may differ by one between ranks and may be 0, or with a
// budget those that data::divide() gives it.
class PairSource : public data::Source {
 public:
  // Throws UserError that names the file and the line, or the sample that is larger than the budget.
  PairSource(const DataConfig& config, uint64_t seed, const Sizes& budget = {});

  // The samples themselves, so that a checkpoint has all that a later evaluation needs.
  std::vector<AttachedFile> attached_files() const override {
    return {{.role = "samples", .path = file_, .stored_as = "samples.txt"}};
  }
  Json identity() const override { return checksum_; }

  // The training sample with this number in the run.
  const std::vector<float>& sample(uint64_t number) const;

 protected:
  std::vector<data::HeldOutPart> held_out_parts() const override { return {{file_, samples_.size() - training_}}; }
  data::MicroBatch micro_batch(const data::Samples& samples, const data::TensorNames& names) const override;
  int64_t items_of(uint64_t sample) const override;
  data::SizesOfSamples sizes_of(const data::Samples& samples) const override;

 private:
  const std::vector<float>& sample_of(const data::Samples& samples, uint64_t number) const;

  std::string file_, checksum_;
  std::vector<std::vector<float>> samples_;
  size_t training_ = 0;  // the first of them
  std::optional<data::Mixture> order_;
};

}  // namespace terrace::pair

// The data of pairs: a text file with one line for each sample, and in it seven numbers for each item, six features and
// a target. A sample whose line is empty has no items.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/divided_samples.h"
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

  std::vector<data::MicroBatch> micro_batches(const data::StepShare& share,
                                              const data::TensorNames& names) const override;
  std::vector<data::HeldOut> held_out(uint64_t at_most) const override;
  int64_t rounds(const data::HeldOut& held_out, const data::RoundShare& share) const override {
    return rounds_.rounds(held_out, share);
  }
  data::MicroBatch held_out_micro_batch(const data::HeldOut& held_out, const data::RoundShare& share,
                                        const data::TensorNames& names) const override;
  std::vector<std::string> held_out_datasets() const override { return {file_}; }
  int64_t items(uint64_t first, int64_t samples) const override;
  // The samples themselves, so that a checkpoint has all that a later evaluation needs.
  std::vector<AttachedFile> attached_files() const override {
    return {{.role = "samples", .path = file_, .stored_as = "samples.txt"}};
  }
  Json identity() const override { return checksum_; }

  // The training sample with this number in the run.
  const std::vector<float>& sample(uint64_t number) const;

 private:
  std::string file_, checksum_;
  std::vector<std::vector<float>> samples_;
  size_t training_ = 0;  // the first of them
  std::optional<data::Mixture> order_;
  data::DividedRounds rounds_;
};

}  // namespace terrace::pair

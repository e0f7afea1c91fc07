// Divides samples of unequal size into micro-batches: the same division on all ranks, without communication.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/sizes.h"
#include "terrace/data/source.h"

namespace terrace::data {

// The sizes of some samples by name, each a list with one number for every sample, of at least 0: {"atoms": {21, 9}}.
using SizesOfSamples = std::map<std::string, std::vector<int64_t>, std::less<>>;

// The sums over some of the samples, by their places in the lists.
Sizes sum_of(const SizesOfSamples& sizes, std::span<const int64_t> samples);

// Throws UserError with the largest sample, the numbers and the way out if samples of `data` alone exceed a budget. A
// source calls it with all its samples when it is opened, training and held-out ones.
void check_budget(const SizesOfSamples& sizes, const Sizes& budget, const std::string& data);

// The places of the samples of each micro-batch, ascending: [ranks][micro-batches][samples].
using DividedSamples = std::vector<std::vector<std::vector<int64_t>>>;

// Micro-batches that hold at most the budget, of the same number on all ranks, at least 1; some of them may be empty,
// and so may whole ranks be. Their number is as small as a greedy division makes it: from the largest sample to the
// smallest, each goes to the micro-batch with the most room. So micro-batches and ranks have nearly equal amounts of
// work. `sizes` has every name of the budget, and no sample exceeds it. The result depends on the arguments only.
DividedSamples divide(const SizesOfSamples& sizes, const Sizes& budget, int64_t ranks);

// The places, counted from the first sample of the step, of the samples in each micro-batch of one rank. Without a
// budget each rank has consecutive samples, whose numbers differ by at most one between ranks, and `sizes_of_step` is
// not called.
std::vector<std::vector<int64_t>> own_samples(const StepShare& share,
                                              const std::function<SizesOfSamples()>& sizes_of_step);

// The same for the rounds of an evaluation. It keeps the last division, since every round asks for it; several threads
// may call it.
class DividedRounds {
 public:
  // `sizes_of` gives the sizes of held-out samples in their order, and is called only with a budget.
  explicit DividedRounds(std::function<SizesOfSamples(const HeldOut&)> sizes_of) : sizes_of_(std::move(sizes_of)) {}

  int64_t rounds(const HeldOut& held_out, const RoundShare& share) const;
  // The places in held_out.samples of those that the rank computes in the round; none on a rank without any.
  std::vector<int64_t> samples(const HeldOut& held_out, const RoundShare& share) const;

 private:
  struct Division {
    std::string dataset;
    std::vector<uint64_t> of_samples;
    int64_t ranks = 0;
    Sizes budget;
    DividedSamples divided;
  };
  std::shared_ptr<const Division> division(const HeldOut& held_out, const RoundShare& share) const;

  std::function<SizesOfSamples(const HeldOut&)> sizes_of_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Division> last_;
};

}  // namespace terrace::data

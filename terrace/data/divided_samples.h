// Divides the samples of a step or an evaluation into the micro-batches of the ranks, also samples of unequal size: the
// same division on all ranks, without communication.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/sizes.h"

namespace terrace::data {

// The share of one data-parallel rank in a step.
struct StepShare {
  int64_t step = 0;             // counted from 1
  uint64_t first_sample = 0;    // of the step, counted over the whole run
  int64_t samples = 0;          // of the step, on all ranks together
  int64_t rank = 0, ranks = 1;  // data-parallel
  int64_t micro_batch = 1;      // samples
  Sizes budget = {};            // the most that a micro-batch holds in place of these samples; empty: no budget
  // Once a stop is requested, nobody reads the step's micro-batches, and a source may return without them.
  std::stop_token stop = {};
};

// The share of one data-parallel rank in an evaluation, in which each rank computes one micro-batch in every round.
struct RoundShare {
  int64_t round = 0;            // counted from 0
  int64_t rank = 0, ranks = 1;  // data-parallel
  int64_t micro_batch = 1;      // samples
  Sizes budget = {};            // as in StepShare
};

// The held-out samples of one dataset.
struct HeldOut {
  std::string dataset;            // as the configuration names it
  std::vector<uint64_t> samples;  // their numbers in the validation split, ascending
};

// The sizes of some samples by name, each a list with one number for every sample, of at least 0: {"atoms": {21, 9}}.
using SizesOfSamples = std::map<std::string, std::vector<int64_t>, std::less<>>;

// Returns the sums of the sizes over some of the samples, which are given by their places in the lists.
Sizes sum_of(const SizesOfSamples& sizes, std::span<const int64_t> samples);

// Throws UserError with the largest sample, the numbers and the way out if samples of `data` alone exceed a budget. A
// source calls it with all its samples when it is opened, training and held-out ones.
void check_budget(const SizesOfSamples& sizes, const Sizes& budget, const std::string& data);

// The predicted time of a sample in any unit: a number for itself, and one for each unit of its sizes. None is
// negative.
struct SampleCost {
  double sample = 1;
  std::map<std::string, double, std::less<>> of_sizes = {};
};

// Returns the predicted time of each sample; `sizes` has every name that the cost has.
std::vector<double> costs_of(const SizesOfSamples& sizes, const SampleCost& cost);

// The places of the samples of each micro-batch, ascending: [ranks][micro-batches][samples].
using DividedSamples = std::vector<std::vector<std::vector<int64_t>>>;

// Divides samples into micro-batches that hold at most the budget, of the same number on all ranks, at least 1; some
// micro-batches may be empty, and so may whole ranks be. The number is as small as a greedy division makes it: from the
// largest sample to the smallest, each goes to the micro-batch with the most room. So micro-batches and ranks have
// nearly equal amounts of work. `sizes` has every name of the budget, and no sample exceeds it. The result depends on
// the arguments only.
DividedSamples divide(const SizesOfSamples& sizes, const Sizes& budget, int64_t ranks);

// The most that a micro-batch holds: with a budget what fits the budget, else `samples`.
struct MicroBatchLimit {
  int64_t samples = 1;
  Sizes budget = {};
};

// Divides samples by their predicted cost. First they are divided among ranks: from the most expensive sample to the
// cheapest, each goes to the rank with the least cost so far (ties: with the fewest samples, then the first); Graham,
// "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17 (1969), shows that the greatest cost of a rank
// is at most 4/3 of the best division's. Then each rank's samples are divided into micro-batches, of the same number on
// all ranks: with a budget, the fewest that hold the samples of every rank; without, as many as hold `samples` each if
// all ranks had equally many. Samples are dealt to micro-batches by cost in the same way, so that a micro-batch of
// cheap samples has more of them. The micro-batches of a rank are in descending order of cost, so that those of one
// place take nearly equal time. The result depends on the arguments only.
DividedSamples divide_by_cost(const SizesOfSamples& sizes, const SampleCost& cost, const MicroBatchLimit& limit,
                              int64_t ranks);

// Returns the places, counted from the first sample of the step, of the samples in each micro-batch of one rank. The
// samples are divided by the cost where there is one, else by the budget. With neither each rank has consecutive
// samples, whose numbers differ by at most one between ranks, and `sizes_of_step` is not called.
std::vector<std::vector<int64_t>> own_samples(const StepShare& share,
                                              const std::function<SizesOfSamples()>& sizes_of_step,
                                              const std::optional<SampleCost>& cost = std::nullopt);

// Divides held-out samples among the rounds and ranks of an evaluation: by the budget, or without one into consecutive
// samples. Keeps the last division, since every round asks for it; several threads may call it.
class DividedRounds {
 public:
  // `sizes_of` gives the sizes of held-out samples in their order, and is called only with a budget.
  explicit DividedRounds(std::function<SizesOfSamples(const HeldOut&)> sizes_of) : sizes_of_(std::move(sizes_of)) {}

  int64_t rounds(const HeldOut& held_out, const RoundShare& share) const;
  // Returns the places in held_out.samples of those that the rank computes in the round; none on a rank without any.
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

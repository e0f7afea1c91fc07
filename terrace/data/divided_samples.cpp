// Fills micro-batches from the largest sample to the smallest and deals them to the ranks, or the other way around.
#include "terrace/data/divided_samples.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/config/domain.h"

namespace terrace::data {
namespace {

int64_t number_of_samples(const SizesOfSamples& sizes) {
  const size_t number = sizes.empty() ? 0 : sizes.begin()->second.size();
  for (const auto& [name, list] : sizes) {
    TERRACE_CHECK(list.size() == number, "{} numbers of {} for {} samples", list.size(), name, number);
  }
  return static_cast<int64_t>(number);
}

int64_t parts_of(int64_t all, int64_t part) { return (all + part - 1) / part; }

// The load of a micro-batch, or of one sample.
struct Load {
  std::vector<int64_t> sizes = {};  // in the order of the budget's names
  double share = 0;                 // of the budget that is exhausted first
};

struct FilledBatch {
  Load load = {};
  std::vector<int64_t> samples = {};
};

class Filling {
 public:
  Filling(const SizesOfSamples& sizes, const Sizes& budget) : samples_(number_of_samples(sizes)) {
    for (const auto& [name, limit] : budget) {
      const auto found = sizes.find(name);
      TERRACE_CHECK(found != sizes.end(), "the samples have no {}, which the budget limits", name);
      limits_.push_back(limit);
      lists_.push_back(&found->second);
    }
    for (int64_t sample = 0; sample < samples_; ++sample) {
      Load load{.sizes = std::vector<int64_t>(limits_.size(), 0)};
      for (size_t i = 0; i < limits_.size(); ++i) load.sizes[i] = (*lists_[i])[static_cast<size_t>(sample)];
      update_share(load);
      TERRACE_CHECK(load.share <= 1, "sample {} alone exceeds the budget", sample);
      loads_.push_back(std::move(load));
    }
    order_.resize(loads_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, std::ranges::greater{}, [&](size_t sample) { return loads_[sample].share; });
  }

  // Returns the number of micro-batches that hold all samples if nothing is left free in them; at least 1.
  int64_t fewest() const {
    int64_t fewest = 1;
    for (size_t i = 0; i < limits_.size(); ++i) {
      const int64_t sum = std::accumulate(lists_[i]->begin(), lists_[i]->end(), int64_t{0});
      fewest = std::max(fewest, parts_of(sum, limits_[i]));
    }
    return fewest;
  }

  // Fills `number` micro-batches, and more where a sample fits into none of them.
  std::vector<FilledBatch> fill(int64_t number) const {
    std::vector<FilledBatch> batches;
    std::set<std::pair<double, size_t>> by_share;
    const auto open = [&] {
      by_share.emplace(0.0, batches.size());
      batches.push_back({.load = {.sizes = std::vector<int64_t>(limits_.size(), 0)}});
    };
    while (std::ssize(batches) < number) open();
    for (const size_t sample : order_) {
      auto place = std::ranges::find_if(
          by_share, [&](const auto& one) { return fits(loads_[sample], batches[one.second].load); });
      if (place == by_share.end()) {
        open();
        place = by_share.find({0.0, batches.size() - 1});
      }
      FilledBatch& batch = batches[place->second];
      const size_t chosen = place->second;
      by_share.erase(place);
      for (size_t i = 0; i < limits_.size(); ++i) batch.load.sizes[i] += loads_[sample].sizes[i];
      update_share(batch.load);
      batch.samples.push_back(static_cast<int64_t>(sample));
      by_share.emplace(batch.load.share, chosen);
    }
    return batches;
  }

 private:
  void update_share(Load& load) const {
    for (size_t i = 0; i < limits_.size(); ++i) {
      load.share = std::max(load.share, static_cast<double>(load.sizes[i]) / static_cast<double>(limits_[i]));
    }
  }

  bool fits(const Load& sample, const Load& held) const {
    for (size_t i = 0; i < limits_.size(); ++i) {
      if (held.sizes[i] + sample.sizes[i] > limits_[i]) return false;
    }
    return true;
  }

  int64_t samples_;
  std::vector<int64_t> limits_;
  std::vector<const std::vector<int64_t>*> lists_;
  std::vector<Load> loads_;
  std::vector<size_t> order_;  // from the largest sample to the smallest
};

// Deals micro-batches to ranks so that those of the same place have nearly equal work, and so have the ranks in all.
DividedSamples dealt(std::vector<FilledBatch> batches, int64_t ranks) {
  std::ranges::stable_sort(batches, std::ranges::greater{}, [](const FilledBatch& one) { return one.load.share; });
  DividedSamples divided(static_cast<size_t>(ranks));
  for (size_t i = 0; i < batches.size(); ++i) {
    const size_t round = i / divided.size(), place = i % divided.size();
    std::ranges::sort(batches[i].samples);
    divided[round % 2 == 0 ? place : divided.size() - 1 - place].push_back(std::move(batches[i].samples));
  }
  return divided;
}

// A bin: its cost, its number of samples and its place, by which the next sample's bin is chosen in this order.
using Bin = std::tuple<double, int64_t, size_t>;

// Returns the samples of each bin: from the most expensive to the cheapest, each goes to the least bin.
std::vector<std::vector<int64_t>> dealt_by_cost(std::span<const int64_t> samples, std::span<const double> costs,
                                                size_t bins) {
  std::vector<int64_t> order(samples.begin(), samples.end());
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int64_t one) { return costs[static_cast<size_t>(one)]; });
  std::priority_queue<Bin, std::vector<Bin>, std::greater<>> least;
  for (size_t bin = 0; bin < bins; ++bin) least.emplace(0.0, 0, bin);
  std::vector<std::vector<int64_t>> held(bins);
  for (const int64_t sample : order) {
    const auto [cost, count, bin] = least.top();
    least.pop();
    held[bin].push_back(sample);
    least.emplace(cost + costs[static_cast<size_t>(sample)], count + 1, bin);
  }
  return held;
}

// Returns the micro-batches of a rank's samples under the budget, at least `number`.
std::vector<std::vector<int64_t>> filled(const SizesOfSamples& sizes, const Sizes& budget,
                                         const std::vector<int64_t>& own, int64_t number) {
  SizesOfSamples own_sizes;
  for (const auto& [name, limit] : budget) {
    std::vector<int64_t>& list = own_sizes[name];
    for (const int64_t sample : own) list.push_back(sizes.find(name)->second[static_cast<size_t>(sample)]);
  }
  const Filling filling(own_sizes, budget);
  std::vector<std::vector<int64_t>> batches;
  for (FilledBatch& batch : filling.fill(std::max(number, filling.fewest()))) {
    for (int64_t& sample : batch.samples) sample = own[static_cast<size_t>(sample)];
    batches.push_back(std::move(batch.samples));
  }
  return batches;
}

// Sorts micro-batches by cost, the most expensive one first, and the samples of each by their numbers.
void sort_by_cost(std::vector<std::vector<int64_t>>& batches, std::span<const double> costs) {
  for (std::vector<int64_t>& batch : batches) std::ranges::sort(batch);
  std::ranges::stable_sort(batches, std::ranges::greater{}, [&](const std::vector<int64_t>& batch) {
    double sum = 0;
    for (const int64_t sample : batch) sum += costs[static_cast<size_t>(sample)];
    return sum;
  });
}

// Returns the numbers of the samples [begin, end).
std::vector<int64_t> consecutive(int64_t begin, int64_t end) {
  std::vector<int64_t> samples(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  std::iota(samples.begin(), samples.end(), begin);
  return samples;
}

}  // namespace

Sizes sum_of(const SizesOfSamples& sizes, std::span<const int64_t> samples) {
  Sizes sums;
  for (const auto& [name, list] : sizes) {
    int64_t& sum = sums[name];
    for (const int64_t sample : samples) sum += list.at(static_cast<size_t>(sample));
  }
  return sums;
}

void check_budget(const SizesOfSamples& sizes, const Sizes& budget, const std::string& data) {
  Sizes enough = budget;
  std::string problems;
  for (auto& [name, limit] : enough) {
    const std::vector<int64_t>& list = sizes.at(name);
    const auto largest = std::ranges::max_element(list);
    if (largest == list.end() || *largest <= limit) continue;
    const auto larger = std::ranges::count_if(list, [most = limit](int64_t size) { return size > most; });
    problems +=
        fmt::format("{}{} of its samples have more than {} {}; the largest is sample {} (counted from 0) with {}",
                    problems.empty() ? "" : ", and ", format_count(larger), format_count(limit), name,
                    largest - list.begin(), format_count(*largest));
    limit = *largest;
  }
  if (problems.empty()) return;
  throw UserError::of(
      "train.micro_batch_sizes = {} is too small for {}: {}; use micro_batch_sizes = {} or more, or leave these "
      "samples "
      "out",
      config::toml_text(budget), data, problems, config::toml_text(enough));
}

DividedSamples divide(const SizesOfSamples& sizes, const Sizes& budget, int64_t ranks) {
  const Filling filling(sizes, budget);
  for (int64_t each = parts_of(filling.fewest(), ranks);;) {
    std::vector<FilledBatch> batches = filling.fill(each * ranks);
    if (std::ssize(batches) == each * ranks) return dealt(std::move(batches), ranks);
    each = parts_of(std::ssize(batches), ranks);
  }
}

std::vector<double> costs_of(const SizesOfSamples& sizes, const SampleCost& cost) {
  std::vector<double> costs(static_cast<size_t>(number_of_samples(sizes)), cost.sample);
  for (const auto& [name, of_one] : cost.of_sizes) {
    const auto found = sizes.find(name);
    TERRACE_CHECK(found != sizes.end(), "the samples have no {}, of which their cost depends", name);
    for (size_t i = 0; i < costs.size(); ++i) costs[i] += of_one * static_cast<double>(found->second[i]);
  }
  return costs;
}

DividedSamples divide_by_cost(const SizesOfSamples& sizes, const SampleCost& cost, const MicroBatchLimit& limit,
                              int64_t ranks) {
  const std::vector<double> costs = costs_of(sizes, cost);
  const auto samples = std::ssize(costs);
  const std::vector<std::vector<int64_t>> of_ranks =
      dealt_by_cost(consecutive(0, samples), costs, static_cast<size_t>(ranks));
  DividedSamples divided(of_ranks.size());
  int64_t number = limit.budget.empty() ? std::max<int64_t>(1, parts_of(parts_of(samples, ranks), limit.samples)) : 1;
  if (limit.budget.empty()) {
    for (size_t rank = 0; rank < divided.size(); ++rank) {
      divided[rank] = dealt_by_cost(of_ranks[rank], costs, static_cast<size_t>(number));
    }
  }
  // A rank may need more micro-batches than the others; then the ranks are filled again with as many.
  for (size_t rank = 0, right = 0; !limit.budget.empty() && right < divided.size();
       rank = (rank + 1) % divided.size()) {
    divided[rank] = filled(sizes, limit.budget, of_ranks[rank], number);
    right = std::ssize(divided[rank]) == number ? right + 1 : 1;
    number = std::ssize(divided[rank]);
  }
  for (std::vector<std::vector<int64_t>>& own : divided) sort_by_cost(own, costs);
  return divided;
}

std::vector<std::vector<int64_t>> own_samples(const StepShare& share,
                                              const std::function<SizesOfSamples()>& sizes_of_step,
                                              const std::optional<SampleCost>& cost) {
  if (cost) {
    const MicroBatchLimit limit{.samples = share.micro_batch, .budget = share.budget};
    return divide_by_cost(sizes_of_step(), *cost, limit, share.ranks).at(static_cast<size_t>(share.rank));
  }
  if (!share.budget.empty()) {
    return divide(sizes_of_step(), share.budget, share.ranks).at(static_cast<size_t>(share.rank));
  }
  const int64_t begin = share.rank * share.samples / share.ranks, end = (share.rank + 1) * share.samples / share.ranks;
  std::vector<std::vector<int64_t>> own;
  for (int64_t done = 0; done < parts_of(share.samples, share.ranks); done += share.micro_batch) {
    own.push_back(consecutive(begin + done, std::min(begin + done + share.micro_batch, end)));
  }
  return own;
}

int64_t DividedRounds::rounds(const HeldOut& held_out, const RoundShare& share) const {
  if (!share.budget.empty()) return std::ssize(division(held_out, share)->divided.front());
  return parts_of(std::ssize(held_out.samples), share.micro_batch * share.ranks);
}

std::vector<int64_t> DividedRounds::samples(const HeldOut& held_out, const RoundShare& share) const {
  if (!share.budget.empty()) {
    return division(held_out, share)->divided.at(static_cast<size_t>(share.rank)).at(static_cast<size_t>(share.round));
  }
  const int64_t first = (share.round * share.ranks + share.rank) * share.micro_batch;
  return consecutive(first, std::min<int64_t>(first + share.micro_batch, std::ssize(held_out.samples)));
}

std::shared_ptr<const DividedRounds::Division> DividedRounds::division(const HeldOut& held_out,
                                                                       const RoundShare& share) const {
  const std::lock_guard lock(mutex_);
  const bool is_known = last_ && last_->dataset == held_out.dataset && last_->of_samples == held_out.samples &&
                        last_->ranks == share.ranks && last_->budget == share.budget;
  if (!is_known) {
    last_ =
        std::make_shared<const Division>(Division{.dataset = held_out.dataset,
                                                  .of_samples = held_out.samples,
                                                  .ranks = share.ranks,
                                                  .budget = share.budget,
                                                  .divided = divide(sizes_of_(held_out), share.budget, share.ranks)});
  }
  return last_;
}

}  // namespace terrace::data

// Computes the samples of each dataset in a block, and the keyed orders.
#include "terrace/data/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/data/order/block_ranks.h"

namespace terrace::data {
namespace {

constexpr uint64_t longest_block = 4096;

// Returns the samples of each dataset in a block of `length`, by largest remainder and at least one for each.
std::vector<uint64_t> slots_of(const std::vector<double>& weights, uint64_t length) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> slots(weights.size());
  std::vector<double> missing(weights.size());
  uint64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / total * static_cast<double>(length);
    slots[i] = std::max<uint64_t>(1, static_cast<uint64_t>(exact));
    missing[i] = exact - static_cast<double>(slots[i]);
    given += slots[i];
  }
  while (given != length) {
    const bool more = given < length;
    auto chosen = missing.end();
    for (auto it = missing.begin(); it != missing.end(); ++it) {
      if (!more && slots[static_cast<size_t>(it - missing.begin())] == 1) continue;
      if (chosen == missing.end() || (more ? *it > *chosen : *it < *chosen)) chosen = it;
    }
    slots[static_cast<size_t>(chosen - missing.begin())] += more ? 1 : -1;
    *chosen += more ? -1 : 1;
    given += more ? 1 : -1;
  }
  return slots;
}

// Returns the shortest block in which every weight is a whole number of samples, or the longest allowed block.
uint64_t block_length(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (uint64_t length = weights.size(); length < longest_block; ++length) {
    const bool whole = std::all_of(weights.begin(), weights.end(), [&](double weight) {
      const double exact = weight / total * static_cast<double>(length);
      return exact > 0.5 && std::abs(exact - std::round(exact)) < 1e-9 * static_cast<double>(length);
    });
    if (whole) return length;
  }
  return longest_block;
}

// Returns the number of the range that `number` lies in.
size_t range_of(const std::vector<uint64_t>& begins, uint64_t number) {
  return static_cast<size_t>(std::ranges::upper_bound(begins, number) - begins.begin()) - 1;
}

// Returns running sums that begin with 0.
std::vector<uint64_t> running_sums(const std::vector<uint64_t>& sizes) {
  std::vector<uint64_t> sums = {0};
  for (const uint64_t size : sizes) sums.push_back(sums.back() + size);
  return sums;
}

}  // namespace

Mixture::Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, bool reshuffle,
                 OrderVersion version)
    : sizes_(std::move(sizes)), key_(key), reshuffle_(reshuffle), weighted_(!weights.empty()), version_(version) {
  TERRACE_CHECK(!sizes_.empty() && (!weighted_ || weights.size() == sizes_.size()), "{} datasets, {} weights",
                sizes_.size(), weights.size());
  for (uint64_t size : sizes_) TERRACE_CHECK(size > 0, "a dataset without samples");
  if (weighted_) {
    fill_block(weights);
    return;
  }
  first_begins_ = begins_ = running_sums(sizes_);
  samples_ = begins_.back();
}

// One dataset by itself gives the elements of its order one by one, as with a weight.
Mixture::Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key,
                 std::vector<Order> orders, OrderVersion version)
    : Mixture(sizes, sizes.size() == 1 ? std::vector{1.0} : weights, key, true, version) {
  TERRACE_CHECK(orders.size() == sizes_.size(), "{} datasets, {} orders", sizes_.size(), orders.size());
  orders_ = std::move(orders);
  std::vector<uint64_t> left;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (orders_[i] == nullptr) orders_[i] = shuffled_order(sizes_[i], key_, i + 1);
    left.push_back(orders_[i]->left_in_epoch(0));
  }
  if (!weighted_) first_begins_ = running_sums(left);
}

Mixture::Mixture(std::vector<uint64_t> sizes, Order of_all) : Mixture(std::move(sizes), {}, PhiloxKey{}, true) {
  of_all_ = std::move(of_all);
}

void Mixture::fill_block(const std::vector<double>& weights) {
  if (weights.size() > longest_block) {
    throw UserError::of("{} weighted datasets; at most {} are mixed", weights.size(), longest_block);
  }
  begins_.assign(1, 0);
  for (uint64_t slots : slots_of(weights, block_length(weights))) begins_.push_back(begins_.back() + slots);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const uint64_t slots = begins_[i + 1] - begins_[i];
    samples_ = std::max(samples_, (sizes_[i] + slots - 1) / slots * begins_.back());
  }
  ranks_ = std::make_shared<BlockRanks>();
}

double Mixture::share(size_t dataset) const {
  return static_cast<double>(begins_[dataset + 1] - begins_[dataset]) / static_cast<double>(begins_.back());
}

// Returns the number of the run's sample in the shuffled order of its block.
uint64_t Mixture::slot_of(uint64_t run_sample) const {
  const uint64_t length = begins_.back();
  return permute(epoch_key(key_, reshuffle_ ? run_sample / length : 0, 0), length, run_sample % length);
}

bool Mixture::epoch_ends_inside(uint64_t block, size_t dataset) const {
  const uint64_t slots = slots_in_block(dataset), first = block * slots, size = sizes_[dataset];
  const uint64_t left = orders_.empty() ? size - first % size : orders_[dataset]->left_in_epoch(first);
  return left < slots;
}

Mixture::Element Mixture::element_in_block(uint64_t run_sample) const {
  const uint64_t length = begins_.back(), block = run_sample / length, slot = slot_of(run_sample);
  const size_t dataset = range_of(begins_, slot);
  const uint64_t first = block * slots_in_block(dataset);
  if (version_ == OrderVersion::overlapping_epochs || !epoch_ends_inside(block, dataset)) {
    return {dataset, first + (slot - begins_[dataset])};
  }
  const auto dataset_at = [&](uint64_t place) { return range_of(begins_, slot_of(block * length + place)); };
  return {dataset, first + ranks_->rank(block, run_sample % length, length, sizes_.size(), dataset_at)};
}

Mixture::Element Mixture::element_in_epoch(uint64_t run_sample) const {
  const uint64_t in_first = first_begins_.back();
  if (run_sample < in_first) {
    const uint64_t slot = permute(epoch_key(key_, 0, 0), in_first, run_sample);
    const size_t dataset = range_of(first_begins_, slot);
    return {dataset, slot - first_begins_[dataset]};
  }
  const uint64_t later = (run_sample - in_first) / samples_;  // epochs between the first one and this one
  const PhiloxKey key = epoch_key(key_, reshuffle_ ? later + 1 : 0, 0);
  const uint64_t slot = permute(key, samples_, (run_sample - in_first) % samples_);
  const size_t dataset = range_of(begins_, slot);
  return {dataset, first_of_dataset(dataset) + later * sizes_[dataset] + (slot - begins_[dataset])};
}

Mixture::DatasetSample Mixture::at(uint64_t run_sample) const {
  if (of_all_ != nullptr) {
    const uint64_t sample = of_all_->at(run_sample);
    const size_t dataset = range_of(begins_, sample);
    return {dataset, sample - begins_[dataset]};
  }
  const auto [dataset, index] = weighted_ ? element_in_block(run_sample) : element_in_epoch(run_sample);
  if (!orders_.empty()) return {dataset, orders_[dataset]->at(index)};
  const uint64_t size = sizes_[dataset];
  if (!weighted_) return {dataset, index % size};
  return {dataset, permute(epoch_key(key_, reshuffle_ ? index / size : 0, dataset + 1), size, index % size)};
}

// Returns the order from which at() takes the samples of a dataset.
Order Mixture::order_of(size_t dataset) const {
  if (!orders_.empty()) return orders_[dataset];
  if (weighted_) return shuffled_order(sizes_[dataset], key_, dataset + 1);
  return sizes_.size() == 1 ? shuffled_order(sizes_[dataset], key_, 0) : in_file_order(sizes_[dataset]);
}

std::vector<Order> Mixture::rest(uint64_t drawn) const {
  TERRACE_CHECK(reshuffle_, "a mixture whose epochs have one order does not change");
  TERRACE_CHECK(of_all_ == nullptr, "a mixture that follows an order of all samples does not change");
  if (weighted_) return rest_of_blocks(drawn);
  if (sizes_.size() == 1) return {continued_order({}, order_of(0), drawn)};
  return rest_of_epoch(drawn);
}

// Returns the orders of what is left. The samples which are left of a block that is under way come first.
std::vector<Order> Mixture::rest_of_blocks(uint64_t drawn) const {
  const uint64_t length = begins_.back(), whole = drawn / length;
  const bool under_way = drawn % length > 0;
  std::vector<bool> taken(length);
  for (uint64_t sample = whole * length; sample < drawn; ++sample) taken[slot_of(sample)] = true;
  std::vector<Order> rest;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const Order order = order_of(i);
    const uint64_t slots = slots_in_block(i);
    if (under_way && version_ == OrderVersion::complete_epochs && epoch_ends_inside(whole, i)) {
      const auto begin = taken.begin() + static_cast<std::ptrdiff_t>(begins_[i]);
      const auto drawn_here = std::count(begin, begin + static_cast<std::ptrdiff_t>(slots), true);
      rest.push_back(continued_order({}, order, whole * slots + static_cast<uint64_t>(drawn_here)));
      continue;
    }
    std::vector<uint64_t> left;
    for (uint64_t slot = 0; under_way && slot < slots; ++slot) {
      if (!taken[begins_[i] + slot]) left.push_back(order->at(whole * slots + slot));
    }
    rest.push_back(continued_order(std::move(left), order, (whole + (under_way ? 1 : 0)) * slots));
  }
  return rest;
}

std::vector<Order> Mixture::rest_of_epoch(uint64_t drawn) const {
  const uint64_t in_first = first_begins_.back();
  const bool first = drawn < in_first;
  const uint64_t later = first ? 0 : (drawn - in_first) / samples_;
  std::vector<uint64_t> from;  // for each dataset the first element of its order in the epoch
  std::vector<NumberSet> taken;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    from.push_back(first ? 0 : first_of_dataset(i) + later * sizes_[i]);
    taken.emplace_back(first ? first_of_dataset(i) : sizes_[i]);
  }
  for (uint64_t sample = first ? 0 : in_first + later * samples_; sample < drawn; ++sample) {
    const auto [dataset, index] = element_in_epoch(sample);
    taken[dataset].insert(index - from[dataset]);
  }
  std::vector<Order> rest;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    Order next = orders_.empty() ? shuffled_order(sizes_[i], key_, i + 1)
                                 : continued_order({}, orders_[i], from[i] + taken[i].size());
    const PhiloxKey key = epoch_key(key_, first ? 0 : later + 1, sizes_.size() + 1 + i);
    rest.push_back(undrawn_order(taken[i], order_of(i), from[i], key, std::move(next)));
  }
  return rest;
}

}  // namespace terrace::data

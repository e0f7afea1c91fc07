// The order in which the samples of one dataset occur in a run whose mix of datasets changes from step to step: an
// endless sequence in which a dataset goes on where an earlier mix left it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::data {

class DatasetOrder {
 public:
  virtual ~DatasetOrder() = default;
  // Returns an element of the sequence: a sample of the dataset.
  virtual uint64_t at(uint64_t index) const = 0;
  // Returns the number of elements from `index` on that belong to the same epoch; at least 1.
  virtual uint64_t left_in_epoch(uint64_t index) const = 0;
};

using Order = std::shared_ptr<const DatasetOrder>;

// Returns the key of an order that belongs to a numbered epoch of a numbered stream.
PhiloxKey epoch_key(PhiloxKey key, uint64_t epoch, uint64_t stream);

// Return epochs of all `size` samples, in the order of the file, or each in a shuffled order of its own.
Order in_file_order(uint64_t size);
Order shuffled_order(uint64_t size, PhiloxKey key, uint64_t stream);

// Returns the elements of `order` from `from` on, after the samples `first`, which belong to the same epoch.
Order continued_order(std::vector<uint64_t> first, Order order, uint64_t from);

// A subset of the numbers 0 .. size - 1, one bit each.
class NumberSet {
 public:
  explicit NumberSet(uint64_t size) : size_(size), words_(size / 64 + 1) {}

  void insert(uint64_t number) { words_[number / 64] |= uint64_t{1} << number % 64; }
  uint64_t size() const { return size_; }
  bool contains(uint64_t number) const { return (words_[number / 64] >> number % 64 & 1) != 0; }
  const std::vector<uint64_t>& words() const { return words_; }

 private:
  uint64_t size_;
  std::vector<uint64_t> words_;
};

// Returns the elements from + i of `order` for every i that is not in `drawn`, in a shuffled order of their own; then
// `next`.
Order undrawn_order(const NumberSet& drawn, Order order, uint64_t from, PhiloxKey key, Order next);

}  // namespace terrace::data

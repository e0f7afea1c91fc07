// Makes the orders: file order, shuffled epochs, and what an earlier mix has left of an order.
#include "terrace/data/order/dataset_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

class FileOrder : public DatasetOrder {
 public:
  explicit FileOrder(uint64_t size) : size_(size) {}
  uint64_t at(uint64_t index) const override { return index % size_; }
  uint64_t left_in_epoch(uint64_t index) const override { return size_ - index % size_; }

 private:
  uint64_t size_;
};

class ShuffledOrder : public DatasetOrder {
 public:
  ShuffledOrder(uint64_t size, PhiloxKey key, uint64_t stream) : size_(size), key_(key), stream_(stream) {}
  uint64_t at(uint64_t index) const override {
    return permute(epoch_key(key_, index / size_, stream_), size_, index % size_);
  }
  uint64_t left_in_epoch(uint64_t index) const override { return size_ - index % size_; }

 private:
  uint64_t size_;
  PhiloxKey key_;
  uint64_t stream_;
};

class ContinuedOrder : public DatasetOrder {
 public:
  ContinuedOrder(std::vector<uint64_t> first, Order order, uint64_t from)
      : first_(std::move(first)), order_(std::move(order)), from_(from) {}

  uint64_t at(uint64_t index) const override {
    return index < first_.size() ? first_[index] : order_->at(from_ + (index - first_.size()));
  }
  uint64_t left_in_epoch(uint64_t index) const override {
    if (index < first_.size()) return first_.size() - index + order_->left_in_epoch(from_);
    return order_->left_in_epoch(from_ + (index - first_.size()));
  }

 private:
  std::vector<uint64_t> first_;
  Order order_;
  uint64_t from_;
};

class UndrawnOrder : public DatasetOrder {
 public:
  UndrawnOrder(const NumberSet& drawn, Order order, uint64_t from, PhiloxKey key, Order next)
      : words_(drawn.words()), order_(std::move(order)), from_(from), key_(key), next_(std::move(next)) {
    // Each word gets the bits of the numbers that are left; there are none beyond the size.
    for (uint64_t& word : words_) word = ~word;
    words_.back() &= (uint64_t{1} << drawn.size() % 64) - 1;
    for (size_t word = 0; word < words_.size(); ++word) {
      if (word % words_in_group == 0) before_group_.push_back(left_);
      left_ += static_cast<uint64_t>(std::popcount(words_[word]));
    }
  }

  uint64_t at(uint64_t index) const override {
    return index < left_ ? order_->at(from_ + undrawn(permute(key_, left_, index))) : next_->at(index - left_);
  }
  uint64_t left_in_epoch(uint64_t index) const override {
    return index < left_ ? left_ - index : next_->left_in_epoch(index - left_);
  }

 private:
  static constexpr size_t words_in_group = 16;

  // Returns the number that has `rank` smaller ones among those left.
  uint64_t undrawn(uint64_t rank) const {
    const auto group = std::ranges::upper_bound(before_group_, rank) - 1;
    uint64_t skip = rank - *group;
    auto word = static_cast<size_t>(group - before_group_.begin()) * words_in_group;
    for (; skip >= static_cast<uint64_t>(std::popcount(words_[word])); ++word) {
      skip -= static_cast<uint64_t>(std::popcount(words_[word]));
    }
    uint64_t bits = words_[word];
    for (; skip > 0; --skip) bits &= bits - 1;
    return word * 64 + static_cast<uint64_t>(std::countr_zero(bits));
  }

  std::vector<uint64_t> words_, before_group_;
  Order order_;
  uint64_t from_;
  PhiloxKey key_;
  Order next_;
  uint64_t left_ = 0;
};

}  // namespace

PhiloxKey epoch_key(PhiloxKey key, uint64_t epoch, uint64_t stream) {
  const PhiloxBlock block = philox_at(key, epoch, stream);
  return {block[0], block[1]};
}

Order in_file_order(uint64_t size) { return std::make_shared<FileOrder>(size); }

Order shuffled_order(uint64_t size, PhiloxKey key, uint64_t stream) {
  return std::make_shared<ShuffledOrder>(size, key, stream);
}

Order continued_order(std::vector<uint64_t> first, Order order, uint64_t from) {
  return std::make_shared<ContinuedOrder>(std::move(first), std::move(order), from);
}

Order undrawn_order(const NumberSet& drawn, Order order, uint64_t from, PhiloxKey key, Order next) {
  return std::make_shared<UndrawnOrder>(drawn, std::move(order), from, key, std::move(next));
}

}  // namespace terrace::data

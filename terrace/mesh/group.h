// A group of ranks as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace terrace::mesh {

// Ranks of a group in order. Copies share the numbers, which do not change, so that the groups of all ranks of a run
// that are threads of one process take the memory of one list.
class SharedRanks {
 public:
  using value_type = int64_t;
  using const_iterator = std::vector<int64_t>::const_iterator;

  SharedRanks() = default;
  SharedRanks(std::vector<int64_t> ranks) : ranks_(std::make_shared<const std::vector<int64_t>>(std::move(ranks))) {}
  SharedRanks(std::initializer_list<int64_t> ranks) : SharedRanks(std::vector<int64_t>(ranks)) {}

  operator const std::vector<int64_t>&() const { return *ranks_; }
  const std::vector<int64_t>& values() const { return *ranks_; }
  const_iterator begin() const { return ranks_->begin(); }
  const_iterator end() const { return ranks_->end(); }
  size_t size() const { return ranks_->size(); }
  bool empty() const { return ranks_->empty(); }
  int64_t front() const { return ranks_->front(); }
  int64_t back() const { return ranks_->back(); }
  int64_t operator[](size_t member) const { return (*ranks_)[member]; }
  int64_t at(size_t member) const { return ranks_->at(member); }

  friend bool operator==(const SharedRanks& a, const SharedRanks& b) {
    return a.ranks_ == b.ranks_ || *a.ranks_ == *b.ranks_;
  }
  friend auto operator<=>(const SharedRanks& a, const SharedRanks& b) { return *a.ranks_ <=> *b.ranks_; }

 private:
  std::shared_ptr<const std::vector<int64_t>> ranks_ = std::make_shared<const std::vector<int64_t>>();
};

// An ordered list of ranks of the world; the position of a rank in the list is its member number. Collectives assign
// blocks by member number and add in ascending order of ranks, so groups of the same ranks in another order have the
// same sums.
struct Group {
  std::string name;  // the purpose: "data", "shard_weights"
  SharedRanks ranks;

  bool operator==(const Group&) const = default;
  auto operator<=>(const Group&) const = default;
};

// One direction between two members of a group: `from` sends messages, `to` receives them.
struct Direction {
  int64_t from = 0, to = 0;  // member numbers

  bool operator==(const Direction&) const = default;
};

// `number` ranks from `first` on, each `step` after the one before.
Group spaced_ranks(std::string name, int64_t first, int64_t number, int64_t step);
// All of `ranks` ranks in order.
Group all_ranks(std::string name, int64_t ranks);

}  // namespace terrace::mesh

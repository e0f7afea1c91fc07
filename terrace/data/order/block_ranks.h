// Counts for each place in a block of a weighted mixture how many places before it have the same dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace terrace::data {

// Keeps the ranks of the last few blocks, since neighbouring samples lie in the same one and a block has up to 4,096
// places. May be called by several threads at once.
class BlockRanks {
 public:
  // Returns the number of places before `place` that have its dataset, in a block of `length` places, to each of which
  // `dataset_at` gives one of `datasets`.
  uint64_t rank(uint64_t block, uint64_t place, uint64_t length, size_t datasets,
                const std::function<size_t(uint64_t place)>& dataset_at);

 private:
  struct Block {
    uint64_t number;
    std::shared_ptr<const std::vector<uint32_t>> ranks;
  };
  std::shared_ptr<const std::vector<uint32_t>> find(uint64_t block);

  std::mutex mutex_;
  std::list<Block> recent_;  // the latest first
};

}  // namespace terrace::data

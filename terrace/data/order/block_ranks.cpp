// Counts the places of each dataset once for a block.
#include "terrace/data/order/block_ranks.h"

#include <algorithm>
#include <utility>

namespace terrace::data {
namespace {

constexpr size_t most_blocks = 8;  // batches of several steps are made at the same time

}  // namespace

std::shared_ptr<const std::vector<uint32_t>> BlockRanks::find(uint64_t block) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(recent_, block, &Block::number);
  return found == recent_.end() ? nullptr : found->ranks;
}

uint64_t BlockRanks::rank(uint64_t block, uint64_t place, uint64_t length, size_t datasets,
                          const std::function<size_t(uint64_t place)>& dataset_at) {
  if (const auto known = find(block)) return (*known)[place];
  std::vector<uint32_t> ranks, counts(datasets);
  ranks.reserve(length);
  for (uint64_t at = 0; at < length; ++at) ranks.push_back(counts[dataset_at(at)]++);
  const uint64_t own = ranks[place];
  const std::lock_guard lock(mutex_);
  recent_.push_front({block, std::make_shared<const std::vector<uint32_t>>(std::move(ranks))});
  if (recent_.size() > most_blocks) recent_.pop_back();
  return own;
}

}  // namespace terrace::data

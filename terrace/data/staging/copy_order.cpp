// Keeps the known uses of each extent as a chain, and the extents that may be replaced in the order of their next uses.
#include "terrace/data/staging/copy_order.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace terrace::data {

void CopyOrder::set_replaceable(uint32_t extent, Known& known, bool replaceable) {
  if (known.replaceable == replaceable) return;
  known.replaceable = replaceable;
  if (known.held) return;
  if (replaceable) {
    replaceable_.insert({rank_of(known), extent});
  } else {
    replaceable_.erase({rank_of(known), extent});
  }
}

void CopyOrder::add_step(int64_t step, std::span<const uint32_t> extents) {
  for (const uint32_t extent : extents) {
    const uint64_t number = base_ + uses_.size();
    uses_.push_back({.extent = extent, .step = step});
    Known& known = known_[extent];
    if (known.last >= base_) use(known.last).next = number;
    known.last = number;
    if (known.next != 0) continue;
    const bool replaceable = known.replaceable;
    set_replaceable(extent, known, false);
    known.next = number;
    set_replaceable(extent, known, replaceable);
  }
}

void CopyOrder::pass() {
  const Use passed = use(cursor_);
  const auto found = known_.find(passed.extent);
  Known& known = found->second;
  set_replaceable(passed.extent, known, false);
  known.next = passed.next;
  known.passed = cursor_;
  known.passed_step = passed.step;
  if (known.slot) {
    recent_.push_back({cursor_, passed.step, passed.extent});
  } else if (known.next == 0) {
    known_.erase(found);
  }
  ++cursor_;
  while (!recent_.empty() && (recent_.size() > slots_ / 2 || recent_.front().step + steps_kept < passed.step)) {
    const Recent left = recent_.front();
    recent_.pop_front();
    const auto of_extent = known_.find(left.extent);
    // An extent that was used again since then has a later entry in recent_.
    if (of_extent == known_.end() || !of_extent->second.slot || of_extent->second.passed != left.number) continue;
    set_replaceable(left.extent, of_extent->second, true);
  }
}

void CopyOrder::begin_step(int64_t step) {
  now_ = std::max(now_, step);
  while (!uses_.empty() && uses_.front().step < step) {
    if (cursor_ == base_) pass();  // too late for a copy
    uses_.pop_front();
    ++base_;
  }
}

std::optional<CopyOrder::Copy> CopyOrder::next() {
  for (; cursor_ < base_ + uses_.size(); pass()) {
    Known& known = known_.at(use(cursor_).extent);
    if (known.slot) continue;
    Copy copy{.extent = use(cursor_).extent};
    if (used_slots_ < slots_) {
      copy.slot = static_cast<uint32_t>(used_slots_++);
    } else {
      if (replaceable_.empty()) return std::nullopt;
      const uint32_t extent = replaceable_.rbegin()->second;
      const auto replaced = known_.find(extent);
      if (replaced->second.passed_step >= now_) return std::nullopt;
      set_replaceable(extent, replaced->second, false);
      copy.slot = *replaced->second.slot;
      copy.replaced = extent;
      replaced->second.slot.reset();
      if (replaced->second.next == 0) known_.erase(replaced);
    }
    known.slot = copy.slot;
    pass();
    return copy;
  }
  return std::nullopt;
}

std::vector<uint32_t> CopyOrder::missing(size_t at_most) const {
  std::vector<uint32_t> list;
  std::unordered_set<uint32_t> listed;
  for (uint64_t number = cursor_; number < base_ + uses_.size() && list.size() < at_most; ++number) {
    const uint32_t extent = uses_[static_cast<size_t>(number - base_)].extent;
    if (!known_.at(extent).slot && listed.insert(extent).second) list.push_back(extent);
  }
  return list;
}

void CopyOrder::hold(uint32_t extent) {
  const auto found = known_.find(extent);
  if (found == known_.end() || !found->second.slot || found->second.held) return;
  if (found->second.replaceable) replaceable_.erase({rank_of(found->second), extent});
  found->second.held = true;
}

void CopyOrder::release(uint32_t extent) {
  const auto found = known_.find(extent);
  if (found == known_.end() || !found->second.held) return;
  found->second.held = false;
  if (found->second.replaceable) replaceable_.insert({rank_of(found->second), extent});
}

void CopyOrder::give_up(const Copy& copy) {
  Known& known = known_.at(copy.extent);
  set_replaceable(copy.extent, known, false);
  known.slot.reset();
  if (!copy.replaced) --used_slots_;  // the latest copy took the last slot
  slots_ = used_slots_;
}

}  // namespace terrace::data

// Decides which extents are copied into the buffer next, and which extent there makes room for each: the one whose next
// use is furthest ahead (L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966), as
// far as the uses are known.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace terrace::data {

// Follows the uses in their order, ahead of the readers, as a cache would: an extent that is not in the buffer is
// copied, in place of the one that is used last from there on. The copy is due as soon as the readers are done with the
// extent that it replaces. For this to be well ahead of the use, extents that the latest steps use are not replaced:
// those of eight steps, but at most half of the buffer.
class CopyOrder {
 public:
  struct Copy {
    uint32_t extent = 0, slot = 0;
    std::optional<uint32_t> replaced = {};  // the extent that was in the slot
    bool operator==(const Copy&) const = default;
  };

  // `slots` is the number of extents that the buffer holds.
  explicit CopyOrder(uint64_t slots) : slots_(slots) {}

  // Adds the extents that a step reads, each once, in the order of their use. Steps ascend.
  void add_step(int64_t step, std::span<const uint32_t> extents);
  // The readers are done with all steps before this one.
  void begin_step(int64_t step);

  // Returns the next copy, whose extent counts as there from now on. Nothing where all known uses are served, or where
  // the readers still need the extent that it would replace.
  std::optional<Copy> next();
  // Returns whether next() would have to replace an extent, for which it should know as many uses as possible.
  bool replaces() const { return used_slots_ >= slots_; }
  // Returns the extents of the coming copies, each once in their order, whether or not there is room for them.
  std::vector<uint32_t> missing(size_t at_most) const;
  // An extent in the buffer is not replaced from hold() to release(); for other extents these do nothing.
  void hold(uint32_t extent);
  void release(uint32_t extent);
  // The latest copy failed: its extent is not there, its slot is used no more, and the buffer grows no further.
  void give_up(const Copy& copy);

  uint64_t known_uses() const { return uses_.size(); }
  uint64_t slots() const { return slots_; }

 private:
  static constexpr int64_t steps_kept = 8;

  // Uses are numbered from 1 on through the whole run; a number 0 stands for none.
  struct Use {
    uint32_t extent = 0;
    int64_t step = 0;
    uint64_t next = 0;  // the next use of the same extent
  };
  struct Known {
    uint64_t last = 0;    // the last use that is known
    uint64_t next = 0;    // the next use from the cursor on
    uint64_t passed = 0;  // the latest use before the cursor, and its step
    int64_t passed_step = 0;
    std::optional<uint32_t> slot = {};
    bool replaceable = false;  // in replaceable_ then, unless it is held
    bool held = false;
  };
  Use& use(uint64_t number) { return uses_[static_cast<size_t>(number - base_)]; }
  // The rank of an extent, of which the greatest is replaced first: an extent that is never used again comes before
  // others, and of these the one that was used longest ago.
  static uint64_t rank_of(const Known& known) {
    return known.next != 0 ? known.next : std::numeric_limits<uint64_t>::max() - known.passed;
  }
  void set_replaceable(uint32_t extent, Known& known, bool replaceable);
  // Moves the cursor over a use.
  void pass();

  uint64_t slots_, used_slots_ = 0;
  int64_t now_ = std::numeric_limits<int64_t>::min();  // the latest begin_step()
  std::deque<Use> uses_;                               // the first one has the number base_
  uint64_t base_ = 1, cursor_ = 1;
  std::unordered_map<uint32_t, Known> known_;
  // A use that was passed lately, of an extent in the buffer: its number and step, and the extent.
  struct Recent {
    uint64_t number = 0;
    int64_t step = 0;
    uint32_t extent = 0;
  };
  std::set<std::pair<uint64_t, uint32_t>> replaceable_;  // by rank_of()
  std::deque<Recent> recent_;
};

}  // namespace terrace::data

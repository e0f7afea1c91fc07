// Tests what is copied next, and what makes room for it, worked out by hand and held against Belady's rule.
#include "terrace/data/staging/copy_order.h"

#include <gmock/gmock.h>

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using Copy = CopyOrder::Copy;

std::vector<Copy> all_next(CopyOrder& order) {
  std::vector<Copy> copies;
  while (const auto copy = order.next()) copies.push_back(*copy);
  return copies;
}

TEST(CopyOrder, CopiesEachExtentOnceInTheOrderOfItsFirstUse) {
  CopyOrder order(10);
  order.add_step(1, std::vector<uint32_t>{5, 2});
  order.add_step(2, std::vector<uint32_t>{2, 7, 5});
  EXPECT_THAT(all_next(order), ElementsAre(Copy{5, 0}, Copy{2, 1}, Copy{7, 2}));
  order.add_step(3, std::vector<uint32_t>{7, 1});
  EXPECT_THAT(all_next(order), ElementsAre(Copy{1, 3}));
  EXPECT_FALSE(order.replaces());
}

// Extents a = 0, b = 1, c = 2, one a step: a b c a b, in a buffer of two, where the latest one is kept.
TEST(CopyOrder, WaitsUntilTheReadersAreDone) {
  CopyOrder order(2);
  for (const auto& [step, extent] : std::vector<std::pair<int64_t, uint32_t>>{{1, 0}, {2, 1}, {3, 2}, {4, 0}, {5, 1}}) {
    order.add_step(step, std::vector{extent});
  }
  EXPECT_THAT(all_next(order), ElementsAre(Copy{0, 0}, Copy{1, 1}));
  order.begin_step(2);
  EXPECT_THAT(all_next(order), ElementsAre(Copy{2, 0, 0}));
  order.begin_step(3);
  EXPECT_THAT(all_next(order), ElementsAre(Copy{0, 1, 1}));
  order.begin_step(4);
  EXPECT_THAT(all_next(order), ElementsAre(Copy{1, 0, 2}));
}

// Extents that are used once each: a buffer of eight is filled two uses behind the readers.
TEST(CopyOrder, CopiesWellAheadOfTheUse) {
  CopyOrder order(8);
  for (uint32_t step = 1; step <= 30; ++step) order.add_step(step, std::vector{step});
  EXPECT_EQ(all_next(order).size(), 8u);
  for (uint32_t step = 2; step <= 20; ++step) {
    order.begin_step(step);
    const std::vector<Copy> copies = all_next(order);
    ASSERT_EQ(copies.size(), 1u) << step;
    EXPECT_EQ(copies[0].extent, step + 7);
    EXPECT_EQ(copies[0].replaced, step - 1);
  }
}

// The latest two of the extents 0 to 3 are kept. Extent 2 is used again at step 8, 0 at step 20, and 1 and 3 never.
TEST(CopyOrder, ReplacesWhatIsNeverUsedAgainAndThenWhatIsNeededLast) {
  CopyOrder order(4);
  for (uint32_t step = 1; step <= 5; ++step) order.add_step(step, std::vector{step - 1});
  order.add_step(6, std::vector<uint32_t>{5});
  order.add_step(7, std::vector<uint32_t>{6});
  order.add_step(8, std::vector<uint32_t>{2});
  order.add_step(20, std::vector<uint32_t>{0});
  EXPECT_EQ(all_next(order).size(), 4u);
  order.begin_step(5);
  // To make room for 4 there is 1, which is never used again; for 5 there are 0 and 2, since 3 and 4 are kept, of which
  // 0 is needed later; for 6 there is 3, which is never used again.
  EXPECT_THAT(all_next(order), ElementsAre(Copy{4, 1, 1}, Copy{5, 0, 0}, Copy{6, 3, 3}));
}

TEST(CopyOrder, LateStepsAreLeftOut) {
  CopyOrder order(4);
  order.add_step(1, std::vector<uint32_t>{1, 2});
  order.add_step(2, std::vector<uint32_t>{3});
  order.begin_step(2);
  EXPECT_THAT(all_next(order), ElementsAre(Copy{3, 0}));
  EXPECT_EQ(order.known_uses(), 1u);
}

TEST(CopyOrder, AFullDiskKeepsTheBufferAsLargeAsItIs) {
  CopyOrder order(3);
  order.add_step(1, std::vector<uint32_t>{1, 2, 3});
  EXPECT_EQ(order.next(), (Copy{1, 0}));
  order.give_up(*order.next());
  EXPECT_EQ(order.slots(), 1u);
  EXPECT_EQ(order.next(), std::nullopt);
  order.begin_step(2);
  order.add_step(2, std::vector<uint32_t>{2});
  EXPECT_EQ(order.next(), (Copy{2, 0, 1}));
}

// The number of misses of a cache of that many slots by Belady's rule, below which no other rule comes.
int64_t misses_of_belady(const std::vector<uint32_t>& uses, size_t slots) {
  std::set<uint32_t> cache;
  int64_t misses = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (cache.contains(uses[i])) continue;
    ++misses;
    if (cache.size() == slots) {
      uint32_t furthest = 0;
      size_t distance = 0;
      for (const uint32_t extent : cache) {
        size_t next = i + 1;
        while (next < uses.size() && uses[next] != extent) ++next;
        if (next > distance) std::tie(distance, furthest) = std::pair(next, extent);
      }
      cache.erase(furthest);
    }
    cache.insert(uses[i]);
  }
  return misses;
}

TEST(CopyOrder, CopiesAboutAsFewAsBeladysRule) {
  for (uint64_t run = 0; run < 20; ++run) {
    std::vector<uint32_t> uses;
    for (uint64_t i = 0; i < 400; ++i) uses.push_back(philox_at({3, 4}, run, i)[0] % 30);
    CopyOrder order(10);
    for (size_t i = 0; i < uses.size(); ++i) order.add_step(static_cast<int64_t>(i), std::vector{uses[i]});
    std::set<uint32_t> present;
    int64_t copies = 0;
    for (size_t i = 0; i < uses.size(); ++i) {
      order.begin_step(static_cast<int64_t>(i));
      for (const Copy& copy : all_next(order)) {
        ++copies;
        if (copy.replaced) present.erase(*copy.replaced);
        EXPECT_TRUE(present.insert(copy.extent).second);
        EXPECT_LE(present.size(), 10u);
      }
      EXPECT_TRUE(present.contains(uses[i])) << i;  // every use is served
    }
    // At most half of the buffer is for extents that are copied ahead.
    EXPECT_GE(copies, misses_of_belady(uses, 10));
    EXPECT_LE(copies, misses_of_belady(uses, 5));
  }
}

TEST(CopyOrder, NamesWhatIsMissingOnceAndInOrder) {
  CopyOrder order(2);
  order.add_step(1, std::vector<uint32_t>{7, 3});
  order.add_step(2, std::vector<uint32_t>{7, 9});
  EXPECT_EQ(order.missing(10), (std::vector<uint32_t>{7, 3, 9}));
  EXPECT_EQ(order.missing(2), (std::vector<uint32_t>{7, 3}));
  order.next();
  EXPECT_EQ(order.missing(10), (std::vector<uint32_t>{3, 9}));
}

TEST(CopyOrder, WhatIsHeldIsNotReplaced) {
  CopyOrder order(4);
  order.add_step(1, std::vector<uint32_t>{1, 2, 10, 11});
  for (int copy = 0; copy < 4; ++copy) order.next();
  order.add_step(30, std::vector<uint32_t>{3, 4, 5});
  order.begin_step(30);
  order.hold(1);
  order.hold(99);  // never heard of
  const std::optional<CopyOrder::Copy> first = order.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->replaced, 2u);
  order.release(1);
  order.add_step(60, std::vector<uint32_t>{6});
  order.begin_step(60);
  const std::optional<CopyOrder::Copy> second = order.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->replaced, 1u);
}

}  // namespace
}  // namespace terrace::data

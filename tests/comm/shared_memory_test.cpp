// Slot rings in shared memory: slots are read in the order in which they were filled, and no slot is filled again
// before all readers have released it.
#include "terrace/comm/mpi/shared_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace terrace::comm {
namespace {

constexpr int64_t members = 3;
constexpr RingSize size = {.slots = 3, .slot_bytes = 64};

// Each member has its own mapping, as it would in its own process.
std::vector<std::unique_ptr<SharedRings>> rings_of_all() {
  const size_t bytes = SharedRings::bytes_needed(members, size);
  std::vector<std::unique_ptr<SharedMemory>> views;
  views.push_back(std::make_unique<SharedMemory>(bytes));
  for (int64_t member = 1; member < members; ++member) {
    views.push_back(std::make_unique<SharedMemory>(getpid(), views[0]->descriptor(), bytes));
  }
  std::vector<std::unique_ptr<SharedRings>> all;
  for (int64_t member = 0; member < members; ++member) {
    std::unique_ptr<SharedMemory>& view = views[static_cast<size_t>(member)];
    view->close_descriptor();
    all.push_back(std::make_unique<SharedRings>(std::move(view), members, member, size));
  }
  return all;
}

void write(RingWriter& ring, int64_t value) {
  std::byte* free_slot = ring.free_slot();
  while (free_slot == nullptr) {
    std::this_thread::yield();
    free_slot = ring.free_slot();
  }
  std::memcpy(free_slot, &value, sizeof value);
  ring.fill({.kind = Kind::send, .type = Type::int64, .count = value});
}

int64_t read(RingReader& ring) {
  const std::byte* filled_slot = ring.filled_slot();
  while (filled_slot == nullptr) {
    std::this_thread::yield();
    filled_slot = ring.filled_slot();
  }
  int64_t value = 0;
  std::memcpy(&value, filled_slot, sizeof value);
  EXPECT_EQ(ring.signature(), (CallSignature{.kind = Kind::send, .type = Type::int64, .count = value}));
  ring.release();
  return value;
}

TEST(SharedRings, KeepTheOrderFromEachToAllAndToEachOther) {
  constexpr int64_t values = 5000;
  const auto all = rings_of_all();
  std::vector<std::thread> threads;
  for (int64_t me = 0; me < members; ++me) {
    threads.emplace_back([&, me] {
      SharedRings& mine = *all[static_cast<size_t>(me)];
      for (int64_t i = 0; i < values; ++i) {
        write(mine.to_all(), 10 * i + me);
        for (int64_t other = 0; other < members; ++other) {
          if (other != me) write(mine.to(other), 100 * i + 10 * me + other);
        }
        for (int64_t other = 0; other < members; ++other) {
          if (other == me) continue;
          ASSERT_EQ(read(mine.from_all(other)), 10 * i + other);
          ASSERT_EQ(read(mine.from(other)), 100 * i + 10 * other + me);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedRings, SlotIsFreeOnlyAfterItsLastReader) {
  const auto all = rings_of_all();
  RingWriter& ring = all[0]->to_all();
  for (int64_t i = 0; i < size.slots; ++i) write(ring, i);
  EXPECT_EQ(ring.free_slot(), nullptr);
  read(all[1]->from_all(0));
  EXPECT_EQ(ring.free_slot(), nullptr);
  read(all[2]->from_all(0));
  EXPECT_NE(ring.free_slot(), nullptr);
  EXPECT_EQ(all[1]->from(0).filled_slot(), nullptr);
}

TEST(SharedMemory, UnknownDescriptorIsNotMapped) {
  constexpr int no_descriptor = 1 << 20;
  EXPECT_FALSE(SharedMemory(getpid(), no_descriptor, 4096).is_mapped());
}

TEST(FifoOrder, FollowsTheOrderOfJoining) {
  FifoOrder order;
  const uint64_t first = order.join(), second = order.join();
  EXPECT_TRUE(order.is_first(first));
  EXPECT_FALSE(order.is_first(second));
  order.leave();
  EXPECT_TRUE(order.is_first(second));
}

}  // namespace
}  // namespace terrace::comm

// Boxes in shared memory: what is filled is read in order, and no slot is filled again before all have left it.
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
constexpr BoxSize size = {.slots = 3, .slot_bytes = 64};

// Each member with a mapping of its own, as in processes of their own.
std::vector<std::unique_ptr<SharedBoxes>> boxes_of_all() {
  const size_t bytes = SharedBoxes::bytes_needed(members, size);
  std::vector<std::unique_ptr<SharedMemory>> views;
  views.push_back(std::make_unique<SharedMemory>(bytes));
  for (int64_t member = 1; member < members; ++member) {
    views.push_back(std::make_unique<SharedMemory>(getpid(), views[0]->descriptor(), bytes));
  }
  std::vector<std::unique_ptr<SharedBoxes>> all;
  for (int64_t member = 0; member < members; ++member) {
    std::unique_ptr<SharedMemory>& view = views[static_cast<size_t>(member)];
    view->close_descriptor();
    all.push_back(std::make_unique<SharedBoxes>(std::move(view), members, member, size));
  }
  return all;
}

void write(BoxWriter& box, int64_t value) {
  std::byte* room = box.room();
  while (room == nullptr) {
    std::this_thread::yield();
    room = box.room();
  }
  std::memcpy(room, &value, sizeof value);
  box.fill({.kind = Kind::send, .type = Type::int64, .count = value});
}

int64_t read(BoxReader& box) {
  const std::byte* slot = box.slot();
  while (slot == nullptr) {
    std::this_thread::yield();
    slot = box.slot();
  }
  int64_t value = 0;
  std::memcpy(&value, slot, sizeof value);
  EXPECT_EQ(box.mark(), (SlotMark{.kind = Kind::send, .type = Type::int64, .count = value}));
  box.leave();
  return value;
}

TEST(SharedBoxes, HandOverInOrderFromEachToAllAndToEachOther) {
  constexpr int64_t values = 5000;
  const auto all = boxes_of_all();
  std::vector<std::thread> threads;
  for (int64_t me = 0; me < members; ++me) {
    threads.emplace_back([&, me] {
      SharedBoxes& mine = *all[static_cast<size_t>(me)];
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

TEST(SharedBoxes, HaveNoRoomUntilTheLastReaderHasLeft) {
  const auto all = boxes_of_all();
  BoxWriter& box = all[0]->to_all();
  for (int64_t i = 0; i < size.slots; ++i) write(box, i);
  EXPECT_EQ(box.room(), nullptr);
  read(all[1]->from_all(0));
  EXPECT_EQ(box.room(), nullptr);
  read(all[2]->from_all(0));
  EXPECT_NE(box.room(), nullptr);
  EXPECT_EQ(all[1]->from(0).slot(), nullptr);
}

TEST(SharedMemory, OfNobodyIsNotMapped) {
  constexpr int no_descriptor = 1 << 20;
  EXPECT_FALSE(SharedMemory(getpid(), no_descriptor, 4096).is_mapped());
}

TEST(Turns, ComeInTheOrderTheyWereTaken) {
  Turns turns;
  const uint64_t first = turns.take(), second = turns.take();
  EXPECT_TRUE(turns.is_at(first));
  EXPECT_FALSE(turns.is_at(second));
  turns.end_one();
  EXPECT_TRUE(turns.is_at(second));
}

}  // namespace
}  // namespace terrace::comm

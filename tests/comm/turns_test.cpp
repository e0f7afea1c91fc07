// Turns of threads: how many run at a time, in which order, and what happens where those that run wait for others.
#include "terrace/comm/threads/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace terrace::comm {
namespace {

TEST(Turns, SoManyRunAtATime) {
  Turns turns(2);
  std::atomic<int> running = 0, most = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      turns.enter();
      const int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --running;
      turns.leave();
    });
  }
  threads.clear();
  EXPECT_EQ(most, 2);
}

TEST(Turns, WhoeverIsReadyLastRunsFirst) {
  Turns turns(1);
  std::vector<int> order;
  std::mutex mutex;
  std::atomic<int> asleep = 0;
  std::vector<Sleeper> sleepers(3);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      turns.enter();
      ++asleep;
      turns.give_up();
      sleepers[static_cast<size_t>(i)].sleep();
      {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      }
      turns.leave();
    });
  }
  while (asleep < 3) std::this_thread::yield();
  turns.enter();  // this thread has the only turn
  for (Sleeper& sleeper : sleepers) turns.make_ready(sleeper, /*takes_turns=*/true);
  turns.leave();
  threads.clear();
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
}

TEST(Turns, AThreadWithoutTurnsIsWokenAtOnce) {
  Turns turns(1);
  turns.enter();
  Sleeper other;
  bool takes_turns = true;
  std::jthread thread([&] {
    takes_turns = turns.takes_turns();
    other.sleep();
  });
  turns.make_ready(other, /*takes_turns=*/false);
  thread.join();  // though this thread has the only turn
  EXPECT_FALSE(takes_turns);
  turns.leave();
}

TEST(Turns, ReadyThreadsRunWhereThoseThatRunWaitForThem) {
  Turns turns(1);
  std::atomic<bool> done = false;
  std::jthread first([&] {
    turns.enter();
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for something that is no call
    turns.leave();
  });
  std::jthread second([&] {
    turns.enter();
    done = true;
    turns.leave();
  });
  // Whichever of the two is first, and in however many looks: both end.
  for (int look = 0; look < 2000 && !done; ++look) {
    turns.look_for_stall();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(done);
  done = true;
}

TEST(Turns, WithoutALimitNobodyWaits) {
  Turns turns(0);
  turns.enter();
  EXPECT_FALSE(turns.takes_turns());
  Sleeper self;
  turns.make_ready(self, turns.takes_turns());
  self.sleep();
  turns.leave();
}

TEST(Sleeper, SaysWhetherItWasWokenInTime) {
  Sleeper sleeper;
  EXPECT_FALSE(sleeper.sleep_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1)));
  sleeper.wake();
  EXPECT_TRUE(sleeper.sleep_until(std::chrono::steady_clock::now()));
}

}  // namespace
}  // namespace terrace::comm

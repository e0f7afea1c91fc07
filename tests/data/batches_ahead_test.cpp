// Steps come in order and only a few ahead, an error shows at its step, and a jump begins again.
#include "terrace/data/batches_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "terrace/data/source.h"

namespace terrace::data {
namespace {

using Ahead = BatchesAhead<std::vector<MicroBatch>>;

std::vector<MicroBatch> batches_of(int64_t step, const std::stop_token& = {}) {
  return {MicroBatch{.samples = {step, 10 * step}}};
}

int64_t step_of(const std::vector<MicroBatch>& batches) { return batches.at(0).samples.at(0); }

TEST(BatchesAhead, GivesTheBatchesOfEachStep) {
  for (const int64_t threads : {1, 4}) {
    Ahead ahead(batches_of, 50, threads, threads + 1);
    for (int64_t step = 1; step <= 50; ++step) ASSERT_EQ(step_of(ahead.take(step)), step);
    // The step lies behind the last one, as after a change of the number of steps.
    EXPECT_EQ(step_of(ahead.take(51)), 51);
  }
}

// Each step waits for the one after it.
TEST(BatchesAhead, MakesSeveralStepsAtOnce) {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t begun = 0;
  Ahead ahead(
      [&](int64_t step, const std::stop_token&) {
        std::unique_lock lock(mutex);
        begun = std::max(begun, step);
        changed.notify_all();
        changed.wait(lock, [&] { return begun > step || step == 6; });
        return batches_of(step);
      },
      6, 2, 3);
  for (int64_t step = 1; step <= 6; ++step) ASSERT_EQ(step_of(ahead.take(step)), step);
}

TEST(BatchesAhead, MakesNoMoreThanItsBound) {
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<int64_t> made;
  Ahead ahead(
      [&](int64_t step, const std::stop_token&) {
        const std::lock_guard lock(mutex);
        made.insert(step);
        changed.notify_all();
        return batches_of(step);
      },
      100, 1, 3);
  ahead.take(1);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made.size() >= 4; });  // step 1 and three more
  }
  ahead.take(2);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return made.size() >= 5; });
  EXPECT_EQ(made, (std::multiset<int64_t>{1, 2, 3, 4, 5}));
}

TEST(BatchesAhead, JumpsToAnyStep) {
  for (const int64_t threads : {1, 3}) {
    Ahead ahead(batches_of, 100, threads, 4);
    for (const int64_t step : {7, 8, 3, 4, 90, 91, 2, 2, 5}) ASSERT_EQ(step_of(ahead.take(step)), step);
  }
}

TEST(BatchesAhead, ShowsAnErrorAtItsStep) {
  Ahead ahead(
      [](int64_t step, const std::stop_token&) {
        if (step == 3) throw std::runtime_error("the file of step 3 is gone");
        return batches_of(step);
      },
      10);
  EXPECT_EQ(step_of(ahead.take(1)), 1);
  EXPECT_EQ(step_of(ahead.take(2)), 2);
  try {
    ahead.take(3);
    FAIL() << "the error is lost";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the file of step 3 is gone");
  }
  EXPECT_EQ(step_of(ahead.take(4)), 4);
}

TEST(BatchesAhead, EndsWhileStepsAreMade) {
  std::atomic<int64_t> made = 0;
  {
    Ahead ahead(
        [&](int64_t step, const std::stop_token&) {
          ++made;
          return batches_of(step);
        },
        1000, 1, 100);
    ahead.take(1);
  }
  EXPECT_LE(made, 102);
}

// The step that is made never ends by itself.
TEST(BatchesAhead, StopsTheStepThatIsMadeAtItsEndAndAtAJump) {
  const auto until_stopped = [](int64_t step, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    if (step % 2 == 0) stopped.wait(lock, stop, [] { return false; });
    return batches_of(step);
  };
  for (const int64_t threads : {1, 3}) {
    Ahead ahead(until_stopped, 1000, threads);
    EXPECT_EQ(step_of(ahead.take(1)), 1);
    EXPECT_EQ(step_of(ahead.take(5)), 5);
  }
}

}  // namespace
}  // namespace terrace::data

// Order, bounded memory and errors of the parallel map.
#include "terrace/data/ordered_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace terrace::data {
namespace {

TEST(OrderedMap, ResultsComeInOrderAndFewAreAlive) {
  for (int threads : {1, 2, 3, 7}) {
    std::atomic<int> alive = 0;
    int most_alive = 0, produced = 0, consumed = 0;
    ordered_map<int, int>(
        threads,
        [&]() -> std::optional<int> {
          if (produced == 500) return std::nullopt;
          most_alive = std::max(most_alive, ++alive);
          return produced++;
        },
        [] {
          return [](int& number) {
            // The even take longer, so that they are overtaken.
            if (number % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
            return number * 3;
          };
        },
        [&](int& result) {
          EXPECT_EQ(result, 3 * consumed++);
          --alive;
        });
    EXPECT_EQ(consumed, 500);
    EXPECT_LE(most_alive, 2 * threads + 2);
  }
}

TEST(OrderedMap, AnErrorAnywhereEndsItAndIsThrownOn) {
  for (int where = 0; where < 3; ++where) {
    int produced = 0;
    const auto run = [&] {
      ordered_map<int, int>(
          2,
          [&]() -> std::optional<int> {
            if (where == 0 && produced == 20) throw std::runtime_error("produce");
            return produced++;
          },
          [where] {
            return [where](int& number) {
              if (where == 1 && number == 20) throw std::runtime_error("map");
              return number;
            };
          },
          [&](int& number) {
            if (where == 2 && number == 20) throw std::runtime_error("consume");
          });
    };
    EXPECT_THROW(run(), std::runtime_error) << where;
    EXPECT_LT(produced, 40);
  }
}

}  // namespace
}  // namespace terrace::data

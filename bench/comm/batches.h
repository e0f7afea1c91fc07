// Says how all participants of the comparison time their calls, and at which sizes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace terrace::bench {

inline constexpr int64_t message_bytes[] = {8, 64, 512, 4096, 32768, 262144, 2097152, 16777216, 67108864};

struct Times {
  double median, least;  // of the batches, microseconds a call
};

struct BatchPlan {
  int64_t calls = 0, batches = 0;
};

// Times `call` in batches of 2 ms or 3 calls. `meet` is a barrier; `agree` gives all ranks the plan of rank 0.
template <typename Call, typename Meet, typename Agree>
Times time_batches(const Call& call, const Meet& meet, const Agree& agree) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&](int64_t calls) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(Clock::now() - began).count() / static_cast<double>(calls);
  };
  seconds_of(5);
  const double about = seconds_of(3);
  BatchPlan plan;
  plan.calls = std::clamp(static_cast<int64_t>(0.002 / about), int64_t{3}, int64_t{100000});
  plan.batches =
      std::clamp(static_cast<int64_t>(1.0 / (about * static_cast<double>(plan.calls))), int64_t{5}, int64_t{25});
  agree(plan);
  std::vector<double> times;
  for (int64_t batch = 0; batch < plan.batches; ++batch) {
    meet();
    times.push_back(1e6 * seconds_of(plan.calls));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

}  // namespace terrace::bench
